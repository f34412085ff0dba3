#include "model/slices.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::model {
namespace {

const char* find_unshared(const LayerSpec& layer) {
  if (layer.recurrent) return "mixers that carry a state";
  if (layer.shared_block) return "blocks that layers share";
  if (layer.attention.keys_of >= 0) return "layers that read the keys of others";
  const bool together = layer.attention.norm_span == NormSpan::all_heads;
  if (together && (layer.attention.q_norm.present || layer.attention.k_norm.present)) {
    return "norms over all heads together";
  }
  return nullptr;
}

}  // namespace

int64_t slices_of(int64_t inputs, int64_t unit) {
  int64_t count = kMostSlices;
  while (count > 1 && inputs % (unit * count) != 0) count /= 2;
  return count;
}

int64_t slice_unit(const WeightSpec& weight) {
  int64_t unit = 2;
  for (const Part& part : weight.parts) {
    if (!part.packing) continue;
    if (part.packing->ordered) return 0;
    unit = std::lcm(unit, word_inputs(part.packing->bits));
    unit = std::lcm(unit, std::max<int64_t>(part.packing->group, 1));
    unit = std::lcm(unit, rounded_together(part.packing->inputs));
  }
  return unit;
}

const char* find_unshared(const ModelSpec& spec) {
  if (!spec.quantization.empty()) return "weights quantised in a way that run does not know";
  if (spec.layer_inputs.width > 0) return "inputs by layer";
  for (const LayerSpec& layer : spec.layers) {
    if (const char* what = find_unshared(layer)) return what;
  }
  return nullptr;
}

void slice_sums(ModelSpec& spec) {
  const bool shared = find_unshared(spec) == nullptr;
  for (WeightSpec& weight : spec.weights) {
    const int64_t unit = shared && weight.split == Split::row ? slice_unit(weight) : 0;
    weight.slices = unit > 0 ? slices_of(weight.columns(), unit) : 1;
  }
}

}  // namespace plimsoll::model
