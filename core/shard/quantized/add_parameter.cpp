#include "shard/quantized/add_parameter.h"

#include <limits>

#include "base/error.h"
#include "base/rounding.h"

namespace plimsoll::shard {
namespace {

using model::Part;
using model::Split;
using model::WeightSpec;
using quantization::Holds;
using quantization::LayerParameter;
using quantization::Packed;
using quantization::Values;
using quantization::WeightFormat;

/// Gives a grid's scales the shape [rows, 1, columns, 1].
void add_axes(WeightSpec& made) {
  made.shape = {made.shape[0], 1, made.shape[1], 1};
  for (Part& part : made.parts) {
    part.stored_shape = {part.stored_shape[0], 1, part.stored_shape[1], 1};
  }
}

/// Adds the input scales of older NVFP4 checkpoints, which vLLM loads and drops.
void add_unused_scales(const LayerParameter& parameter, QuantizedParameters& to) {
  const std::string name = parameter.name;
  if (to.all_have(name)) return to.by_part(name, parameter.dtype);
  if (to.any_has(name) || to.weight().is_stack()) {
    refuse_quantized(to.weight().name + " lacks scales of inputs (" + name +
                     "), which vLLM has room for and would leave unfilled");
  }
  to.add_constant(name, parameter.dtype, std::numeric_limits<float>::quiet_NaN(),
                  {static_cast<int64_t>(to.weight().parts.size())});
}

/// Adds values of blocks of outputs and inputs, codes too.
void add_blocks(const LayerParameter& parameter, const LayerForm& form, QuantizedParameters& to) {
  const std::string name = form.name_of(parameter);
  if (form.has_bytes() && parameter.inputs == 0) {
    // Quark's int8 layers have columns where the checkpoint has vectors; its experts, as its fp8,
    // have vectors.
    const bool column = !form.of.scale_vectors || form.has(WeightFormat::int8);
    return to.by_output(name, *parameter.dtype, column ? Axes::column : Axes::vector,
                        form.of.scale_vectors ? Axes::vector : Axes::column);
  }
  const int64_t in_element = parameter.packed == Packed::none ? 1
                             : parameter.dtype == DType::i32  ? to.integers_per_word(form.scheme)
                                                              : 8 / form.scheme.bits;
  int64_t columns = to.inputs();
  if (parameter.packed == Packed::along_inputs) columns /= in_element;
  if (parameter.inputs != 1) {
    columns = parameter.partial ? divide_up(columns, parameter.inputs) : to.groups(form.scheme);
  }
  const int64_t unit = parameter.packed == Packed::along_outputs ? in_element : parameter.outputs;
  // vLLM cuts even AWQ's single group of all inputs, which then divides by no number of ranks.
  const bool cut = parameter.inputs > 0 || form.has(WeightFormat::awq);
  const Split split = cut ? to.weight().split : to.outputs_only();
  if (form.has(WeightFormat::awq) || form.has(WeightFormat::gptq) ||
      form.has(WeightFormat::quark_int4)) {
    return to.by_columns(name, parameter.dtype, split, columns, unit);
  }
  WeightSpec& made = to.by_rows(name, parameter.dtype, split, unit, columns);
  if (form.of.four_axes && form.has_bytes() && unit > 1) add_axes(made);
}

}  // namespace

bool LayerForm::has_bytes() const {
  return has(WeightFormat::fp8) || has(WeightFormat::int8);
}

const char* LayerForm::name_of(const LayerParameter& parameter) const {
  const bool floats = has(WeightFormat::nvfp4) || has(WeightFormat::mxfp4);
  if (parameter.holds == Holds::matrix_scales) return of.second_scale;
  if (parameter.holds == Holds::codes && floats) return of.codes;
  if (parameter.holds == Holds::input_scales && floats) return of.input_scale;
  return parameter.holds == Holds::scales && parameter.partial ? of.block_scales : parameter.name;
}

void LayerForm::check() const {
  if (has(WeightFormat::awq) && scheme.bits != 4) {
    refuse_quantized(fmt::format("AWQ of {} bits; vLLM takes 4", scheme.bits));
  }
  const int64_t group = quantization::nvfp4().group;
  if (has(WeightFormat::nvfp4) && !of.any_group && scheme.group != group) {
    refuse_quantized(fmt::format("NVFP4 in groups of {}; vLLM takes {}", scheme.group, group));
  }
}

void add_parameter(const LayerParameter& parameter, const LayerForm& form,
                   QuantizedParameters& to) {
  switch (parameter.holds) {
    case Holds::codes:
      if (form.has_bytes()) return to.as_stored(*parameter.dtype);
      break;
    case Holds::input_scales:
      if (form.has(WeightFormat::nvfp4) && !form.scheme.static_input)
        return add_unused_scales(parameter, to);
      break;
    case Holds::input_bound:
      return to.add_constant(form.name_of(parameter), parameter.dtype, form.scheme.most_input, {});
    case Holds::shape:
      return to.add_shape();
    case Holds::bias:
      return to.add_expert_bias();
    case Holds::input_groups:
      return;  // add_group_indices, where the checkpoint has them
    default:
      break;
  }
  switch (parameter.values) {
    case Values::block:
      return add_blocks(parameter, form, to);
    case Values::part:
      return to.by_part(form.name_of(parameter), parameter.dtype);
    case Values::matrix:
      return to.by_last(form.name_of(parameter), *parameter.dtype);
  }
}

}  // namespace plimsoll::shard
