// A model's weights and caches: where they lie, how they are read.
#include "engine/model.h"

namespace plimsoll::engine {

using backend::Weight;
using model::LayerSpec;
using model::MlpKind;

namespace {

/// Size of random weights, which are as small as vLLM's dummy weights: nothing overflows in half
/// precision.
constexpr float kRandomScale = 1e-3f;

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
    dtypes[static_cast<size_t>(mlp.router.gate.weight)] = activations;
  }
  return dtypes;
}

/// Stacks whose gate and up are stored in turn, gate first, as if all gates lay before the ups.
class InOrder final : public checkpoint::WeightSource {
 public:
  explicit InOrder(const checkpoint::WeightSource& source) : source_(source) {}

  void read_rows(const model::WeightSpec& spec, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    if (!spec.rows_in_turn) return source_.read_rows(spec, first, count, dtype, to);
    const auto row_bytes = static_cast<size_t>(spec.columns()) * dtype_size(dtype);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t matrix = (first + i) / spec.rows();
      const int64_t row = (first + i) % spec.rows();
      const int64_t half = spec.rows() / 2;
      const int64_t stored = row < half ? 2 * row : 2 * (row - half) + 1;
      source_.read_rows(spec, matrix * spec.rows() + stored, 1, dtype,
                        static_cast<std::byte*>(to) + static_cast<size_t>(i) * row_bytes);
    }
  }
  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(
      const model::WeightSpec& spec, size_t part, const checkpoint::Block& block) const override {
    return spec.rows_in_turn ? WeightSource::packed(spec, part, block)
                             : source_.packed(spec, part, block);
  }

 private:
  const checkpoint::WeightSource& source_;
};

}  // namespace

Model::Model(const model::ModelSpec& spec, DType dtype, backend::Backend& backend,
             memory::Arena& arena, const ModelCaches& caches, WeightsOf weights)
    : spec_(spec),
      dtype_(dtype),
      backend_(backend),
      angles_(spec.ropes.size()),
      has_plain_layers_(has_plain_layers(spec)) {
  const backend::Footprint& footprint = backend.footprint();
  const std::vector<DType> dtypes = run_dtypes(spec, dtype, footprint.activation_dtype(dtype));
  size_t bytes = 0;
  std::vector<size_t> offsets;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    offsets.push_back(bytes);
    bytes += memory::Arena::aligned(footprint.weight_bytes(spec.weights[i], dtypes[i]));
  }
  const bool own = weights == WeightsOf::itself;
  auto* storage = own ? arena.take_array<std::byte>("weights", bytes) : nullptr;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    weights_.push_back({&spec.weights[i], dtypes[i], own ? storage + offsets[i] : nullptr});
  }
  const KvLayout& kv = caches.kv;
  auto* pool = arena.take_array<std::byte>("kv blocks",
                                           static_cast<size_t>(caches.kv_blocks) * kv.block_bytes);
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
    const size_t size = static_cast<size_t>(rows * columns) * dtype_size(handed);
    handed_ = {arena.take("hidden states", size), handed, rows, columns, columns};
  }
  const StateLayout& states = caches.states;
  if (states.slot_bytes == 0) return;
  auto* slots = arena.take_array<std::byte>(
      "recurrent states", static_cast<size_t>(caches.state_slots) * states.slot_bytes);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    conv_states_.push_back({slots, states.slot_bytes, states.layer_offset[i]});
    states_.push_back({slots, states.slot_bytes, states.state_offset[i]});
  }
}

void Model::load(const checkpoint::WeightSource& stored) {
  const InOrder source(stored);
  for (Weight& weight : weights_) {
    const model::WeightSpec& spec = *weight.spec;
    if (spec.elements() == 0) continue;  // another stage's
    const auto read = [&](int64_t first, int64_t count, void* to) {
      source.read_rows(spec, first, count, weight.dtype, to);
    };
    const auto packed = [&](size_t part) {
      return source.packed(spec, part, {0, spec.parts[part].rows(), 0, spec.columns()});
    };
    weight = backend_.load_weight(spec, weight.dtype, weight.data, {read, packed});
  }
  backend_.finish_loading();
}

void Model::fill_random(uint64_t seed) {
  for (const Weight& weight : weights_) {
    ++seed;  // of a weight, whichever stage has it
    if (weight.spec->elements() > 0) backend_.fill_random(weight, seed, kRandomScale);
  }
  backend_.finish_loading();
}

}  // namespace plimsoll::engine
