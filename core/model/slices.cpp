#include "model/slices.h"

#include <algorithm>

namespace plimsoll::model {
namespace {

const char* find_unshared(const LayerSpec& layer) {
  if (layer.recurrent) return "mixers that carry a state";
  if (layer.shared_block) return "blocks that layers share";
  if (layer.attention.keys_of >= 0) return "layers that read the keys of others";
  if (layer.attention.latent.kv_rank > 0) return "latent attention";
  const bool together = layer.attention.norm_span == NormSpan::all_heads;
  if (together && (layer.attention.q_norm.present || layer.attention.k_norm.present)) {
    return "norms over all heads together";
  }
  return nullptr;
}

}  // namespace

int64_t slices_of(int64_t inputs) {
  int64_t count = kMostSlices;
  while (count > 1 && inputs % (2 * count) != 0) count /= 2;
  return count;
}

const char* find_unshared(const ModelSpec& spec) {
  if (!spec.quantization.empty()) return "quantised weights";
  if (spec.layer_inputs.width > 0) return "inputs by layer";
  const auto is_packed = [](const WeightSpec& weight) { return weight.is_packed(); };
  if (std::ranges::any_of(spec.weights, is_packed)) return "quantised weights";
  for (const LayerSpec& layer : spec.layers) {
    if (const char* what = find_unshared(layer)) return what;
  }
  return nullptr;
}

void slice_sums(ModelSpec& spec) {
  if (find_unshared(spec) != nullptr) return;
  for (WeightSpec& weight : spec.weights) {
    if (weight.split == Split::row) weight.slices = slices_of(weight.columns());
  }
}

}  // namespace plimsoll::model
