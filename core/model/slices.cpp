#include "model/slices.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::model {

int64_t slices_of(int64_t inputs, int64_t unit) {
  int64_t count = kMostSlices;
  while (count > 1 && inputs % (unit * count) != 0) count /= 2;
  return count;
}

int64_t slice_unit(const WeightSpec& weight) {
  int64_t unit = 2;
  for (const Part& part : weight.parts) {
    if (!part.packing) continue;
    if (part.packing->has_blocks()) {
      unit = std::lcm(unit, part.packing->block_type().values);
      continue;
    }
    unit = std::lcm(unit, word_inputs(part.packing->bits));
    // Groups of 128 float8 inputs may be cut, because ranks exchange their largest values.
    if (part.packing->inputs != InputRounding::fp8_group)
      unit = std::lcm(unit, rounded_together(part.packing->inputs));
  }
  return unit;
}

const char* find_unshared(const ModelSpec& spec) {
  return spec.quantization.empty() ? nullptr : "weights quantized in a way that run does not know";
}

void slice_sums(ModelSpec& spec) {
  const bool shared = find_unshared(spec) == nullptr;
  for (WeightSpec& weight : spec.weights) {
    const bool sliced = shared && weight.split == Split::row;
    weight.slices = sliced ? slices_of(weight.columns(), slice_unit(weight)) : 1;
  }
}

}  // namespace plimsoll::model
