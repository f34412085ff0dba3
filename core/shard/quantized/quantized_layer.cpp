#include "shard/quantized/quantized_layer.h"

#include <algorithm>

#include "base/error.h"
#include "shard/quantized/eight_bits.h"
#include "shard/quantized/four_bit_floats.h"
#include "shard/quantized/quantized_parameters.h"

namespace plimsoll::shard {
namespace {

using model::Part;
using model::Split;
using model::WeightSpec;
using quantization::WeightFormat;
using quantization::WeightScheme;

void add_packed(QuantizedParameters& to, const WeightScheme& scheme) {
  const int64_t packed = to.integers_per_word(scheme);
  to.by_rows("weight_packed", DType::i32, to.weight().split, 1, to.inputs() / packed);
  to.by_rows("weight_scale", std::nullopt, to.group_split(scheme), 1, to.groups(scheme));
  to.add_shape();
  if (!scheme.zero_points) return;
  to.by_rows("weight_zero_point", DType::i32, to.group_split(scheme), packed, to.groups(scheme));
}

void add_awq(QuantizedParameters& to, const WeightScheme& scheme) {
  if (scheme.bits != 4) refuse_quantized(fmt::format("AWQ of {} bits; vLLM takes 4", scheme.bits));
  const int64_t packed = to.integers_per_word(scheme);
  const Split split = to.weight().split;
  // vLLM cuts even a single group of all inputs, which then divides by no number of ranks.
  to.by_columns("qweight", DType::i32, split, to.inputs(), packed);
  to.by_columns("qzeros", DType::i32, split, to.groups(scheme), packed);
  to.by_columns("scales", std::nullopt, split, to.groups(scheme), 1);
}

void add_gptq(QuantizedParameters& to, const WeightScheme& scheme) {
  const int64_t packed = to.integers_per_word(scheme);
  const Split groups = to.group_split(scheme);
  to.by_columns("qweight", DType::i32, to.weight().split, to.inputs() / packed, 1);
  to.by_columns("scales", std::nullopt, groups, to.groups(scheme), 1);
  to.by_columns("qzeros", DType::i32, groups, to.groups(scheme), packed);
  if (to.all_have("g_idx")) to.add_group_indices(scheme.group);
}

// Zero points are there in any case; vLLM drops those of symmetric weights.
void add_quark_int4(QuantizedParameters& to, const WeightScheme& scheme) {
  const int64_t packed = to.integers_per_word(scheme);
  const Split split = to.weight().split;
  if (!scheme.zero_points && !to.all_have("weight_zero_point")) {
    refuse_quantized(to.weight().name + " lacks zero points, which vLLM has room for");
  }
  to.by_columns("weight", DType::i32, split, to.inputs(), packed);
  to.by_columns("weight_zero_point", DType::i32, split, to.groups(scheme), packed);
  to.by_columns("weight_scale", std::nullopt, split, to.groups(scheme), 1);
}

}  // namespace

void add_quantized_linear(const WeightSpec& weight, const WeightScheme& scheme,
                          const LayerClass& of, const StoredTensors& stored,
                          std::vector<WeightSpec>& result) {
  if (std::ranges::any_of(weight.parts, &Part::transposed)) {
    refuse_quantized(weight.name + " is stored transposed");
  }
  QuantizedParameters to(weight, stored, result);
  switch (scheme.format) {
    case WeightFormat::fp8:
    case WeightFormat::int8:
      return add_eight_bits(to, scheme, of);
    case WeightFormat::packed:
      return add_packed(to, scheme);
    case WeightFormat::awq:
      return add_awq(to, scheme);
    case WeightFormat::gptq:
      return add_gptq(to, scheme);
    case WeightFormat::quark_int4:
      return add_quark_int4(to, scheme);
    case WeightFormat::nvfp4:
    case WeightFormat::mxfp4:
      return add_four_bit_floats(to, scheme, of);
    default:
      refuse_quantized(weight.name + " is in a format whose shards are not known");
  }
}

}  // namespace plimsoll::shard
