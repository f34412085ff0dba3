// A model's weights and caches: where they lie, how they are read.
#include "engine/forward/model.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::engine {

using model::LayerSpec;
using model::MlpKind;

namespace {

/// Types that the weights are run in: `dtype`, but vectors that are kept in a type of their own in
/// that, and routers in the activations', so that fewer choices of experts hang on rounding where
/// those are float32.
std::vector<DType> run_dtypes(const model::ModelSpec& spec, DType dtype, DType activations) {
  std::vector<DType> dtypes;
  for (const model::WeightSpec& weight : spec.weights) {
    const bool is_vector = weight.use == model::WeightUse::vector;
    dtypes.push_back(is_vector ? weight.dtype.value_or(dtype) : dtype);
  }
  for (const LayerSpec& layer : spec.layers) {
    const model::MlpSpec& mlp = layer.shortcut ? *layer.shortcut : layer.mlp;
    if (mlp.kind != MlpKind::experts) continue;
    dtypes[mlp.router.gate.weight] = activations;
  }
  return dtypes;
}

}  // namespace

Model::Model(const model::ModelSpec& spec, DType dtype, backend::Backend& backend,
             memory::Arena& arena, const ModelCaches& caches, WeightsOf weights)
    : Weights(dtype, backend),
      spec_(spec),
      angles_(spec.ropes.size()),
      has_plain_layers_(has_plain_layers(spec)) {
  std::ranges::transform(spec.layers, std::back_inserter(ends_), ends_of);
  const backend::Footprint& footprint = backend.footprint();
  place("weights", spec.weights, run_dtypes(spec, dtype, activation_dtype()), arena, weights);
  const KvLayout& kv = caches.kv;
  auto* pool = arena.take_array<std::byte>("kv blocks", caches.kv_blocks * kv.block_bytes);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    caches_.push_back({.pool = pool,
                       .block_stride = kv.block_bytes,
                       .layer_offset = kv.layer_offset[i],
                       .dtype = kv.dtype,
                       .block_size = kv.block_size,
                       .group = kv.layer_group[i],
                       .blocks = caches.kv_blocks});
  }
  if (!is_whole()) {
    const DType handed = footprint.activation_dtype(dtype);
    const int64_t rows = caches.handed_tokens, columns = spec.hidden_size;
    const size_t size = rows * columns * dtype_size(handed);
    handed_ = {arena.take("hidden states", size), handed, rows, columns, columns};
  }
  const StateLayout& states = caches.states;
  if (states.slot_bytes == 0) return;
  auto* slots =
      arena.take_array<std::byte>("recurrent states", caches.state_slots * states.slot_bytes);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    conv_states_.push_back({slots, states.slot_bytes, states.layer_offset[i]});
    states_.push_back({slots, states.slot_bytes, states.state_offset[i]});
  }
}

}  // namespace plimsoll::engine
