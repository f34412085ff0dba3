#include "shard/quantized/quantized_layer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "shard/quantized/add_parameter.h"

namespace plimsoll::shard {
namespace {

using model::Part;
using model::Split;
using model::WeightSpec;
using quantization::Holds;
using quantization::LayerKind;
using quantization::LayerParameter;
using quantization::Scales;
using quantization::WeightFormat;
using quantization::WeightScheme;

void keep_blocks_whole(WeightSpec& made, const WeightScheme& scheme, const LayerClass& of) {
  if (made.split == Split::vocabulary) {
    refuse_quantized(made.name + " has scales of blocks, which vLLM does not load there");
  }
  const bool whole_inputs = of.four_axes || scheme.block_out == 1;
  if (whole_inputs && made.columns() % scheme.block_in != 0) {
    refuse_quantized(fmt::format("{}: {} inputs are no multiple of its blocks of {}", made.name,
                                 made.columns(), scheme.block_in));
  }
  made.output_multiple = scheme.block_out;
  made.input_multiple = scheme.block_in;
  // Scales of fused matrices that do not begin on a block would stand over each other.
  for (size_t i = 0; i + 1 < made.parts.size(); ++i) {
    if (made.parts[i].rows() % scheme.block_out == 0) continue;
    refuse_quantized(fmt::format("{}: {} rows of {} are no multiple of its blocks of {} rows",
                                 made.name, made.parts[i].rows(), made.parts[i].tensor,
                                 scheme.block_out));
  }
}

void check_zeros(const WeightScheme& scheme, const QuantizedParameters& to) {
  const bool unneeded = scheme.format == WeightFormat::quark_int4 && !scheme.zero_points;
  if (unneeded && !to.all_have("weight_zero_point")) {
    refuse_quantized(to.weight().name + " lacks zero points, which vLLM has room for");
  }
}

}  // namespace

void add_quantized_linear(const WeightSpec& weight, const WeightScheme& stated,
                          const LayerClass& of, const StoredTensors& stored,
                          std::vector<WeightSpec>& result) {
  if (std::ranges::any_of(weight.parts, &Part::transposed)) {
    refuse_quantized(weight.name + " is stored transposed");
  }
  const WeightScheme scheme = groups_as_blocks(stated);
  std::vector<LayerParameter> parameters = layer_parameters(scheme, LayerKind::linear);
  if (scheme.plain() || scheme.format == WeightFormat::bitsandbytes || parameters.empty()) {
    refuse_quantized(weight.name + " is in a format whose shards are not known");
  }
  const LayerForm form{scheme, of};
  form.check();
  QuantizedParameters to(weight, stored, result);
  check_zeros(scheme, to);
  if (scheme.format == WeightFormat::nvfp4 && !of.second_first) {
    std::swap(parameters[1], parameters[2]);
  }
  for (const LayerParameter& parameter : parameters) {
    add_parameter(parameter, form, to);
    const bool blocks = form.has_bytes() && scheme.scales == Scales::block;
    if (blocks && parameter.holds == Holds::codes) keep_blocks_whole(result.back(), scheme, of);
  }
  const bool indexed = scheme.format == WeightFormat::gptq && to.all_have("g_idx");
  if (indexed) to.add_group_indices(scheme.group);
}

}  // namespace plimsoll::shard
