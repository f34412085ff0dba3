#include "vllm/shapes/weight_scheme.h"

#include "base/error.h"
#include "quantization/layer_parameters.h"

namespace plimsoll::vllm {
namespace {

using quantization::Holds;
using quantization::LayerKind;
using quantization::LayerParameter;
using quantization::Packed;
using quantization::Values;

constexpr int64_t kInt32 = 4;

void check_divides(Amount size, int64_t block, const char* which, const char* block_name) {
  if (size.value() % block == 0) return;
  fail(ExitCode::usage,
       "Weight {} = {} is not divisible by weight quantization {} = {}. Use a smaller "
       "--tensor-parallel-size.",
       which, size.value(), block_name, block);
}

/// Checks blocks as vLLM does: a slice must not cut a block, and fused matrices must begin on one.
void check_blocks(const WeightScheme& scheme, const MatrixShape& shape) {
  const bool by_groups = scheme.block_out == 1;  // MXFP8: whole groups at one rank too
  if (shape.inputs < shape.full_inputs || by_groups) {
    check_divides(shape.inputs, scheme.block_in, "input_size_per_partition", "block_k");
  }
  const bool merged = shape.widths.size() > 1;
  if ((!shape.cuts_outputs && !merged) || (merged && !scheme.check_merged)) return;
  const size_t checked = shape.cuts_outputs ? shape.widths.size() : shape.widths.size() - 1;
  for (size_t i = 0; i < checked; ++i) {
    check_divides(shape.widths[i], scheme.block_out, "output_partition_size", "block_n");
  }
}

/// A rank's slice must not cut a group, but where GPTQ's kernel of last resort takes it.
void check_groups(const WeightScheme& scheme, const MatrixShape& shape) {
  const int64_t inputs = shape.inputs.value();
  const bool awq = scheme.format == WeightFormat::awq;
  if (inputs % scheme.group == 0 || (awq && scheme.group >= shape.full_inputs.value())) return;
  fail(
      ExitCode::usage,
      "Weight input_size_per_partition={} is not divisible by group_size={}: the input size is not "
      "aligned with the quantized weight shape. This can be caused by too large a "
      "--tensor-parallel-size.",
      inputs, scheme.group);
}

/// Checks what vLLM's layers of the scheme ask of a rank's slice.
void check_slice(const WeightScheme& scheme, const MatrixShape& shape) {
  switch (scheme.format) {
    case WeightFormat::fp8:
    case WeightFormat::int8:
      if (scheme.scales == Scales::block) check_blocks(scheme, shape);
      return;
    case WeightFormat::awq:
    case WeightFormat::packed:
    case WeightFormat::quark_int4:
      if (scheme.group > 0) check_groups(scheme, shape);
      return;
    default:
      return;
  }
}

Amount parameter_bytes(const LayerParameter& parameter, const WeightScheme& scheme,
                       const MatrixShape& shape, int64_t element) {
  const int64_t size = parameter.element_bytes(element);
  if (parameter.values == Values::part) return size * static_cast<int64_t>(shape.widths.size());
  if (parameter.values == Values::matrix) return size * (parameter.holds == Holds::shape ? 2 : 1);
  Amount rows = parameter.outputs > 0 ? ceil_div(shape.outputs(), parameter.outputs) : Amount{1};
  Amount columns = parameter.whole ? shape.full_inputs : shape.inputs;
  if (parameter.inputs == 0) {
    columns = 1;
  } else {
    columns = parameter.partial ? ceil_div(columns, parameter.inputs) : columns / parameter.inputs;
  }
  if (parameter.packed == Packed::none) return rows * columns * size;
  if (scheme.format != WeightFormat::packed) return rows * columns * scheme.bits / 8;
  // The last word of a row may be filled in part.
  Amount& axis = parameter.packed == Packed::along_inputs ? columns : rows;
  axis = ceil_div(axis * scheme.bits, 8 * size);
  return rows * columns * size;
}

Amount sum_of_parameters(const WeightScheme& scheme, LayerKind kind, const MatrixShape& shape,
                         int64_t element) {
  Amount bytes = 0;
  for (const LayerParameter& parameter : layer_parameters(scheme, kind)) {
    bytes += parameter_bytes(parameter, scheme, shape, element);
  }
  return bytes;
}

}  // namespace

Amount matrix_bytes(const WeightScheme& stated, const MatrixShape& shape, int64_t element) {
  const WeightScheme scheme = quantization::groups_as_blocks(stated);
  check_slice(scheme, shape);
  return sum_of_parameters(scheme, LayerKind::linear, shape, element);
}

namespace {

using model::ExpertBlocks;

/// Lets scales use the blocks that vLLM refines them to where a rank's slice cuts a checkpoint's.
void fit_blocks(const ExpertBlocks& blocks, bool split, WeightScheme& scheme) {
  if (!quantization::cuts_blocks(blocks, split)) return;
  const std::optional<ExpertBlocks> fine = quantization::finer_blocks(blocks);
  if (!fine) {
    const bool outputs = blocks.intermediate % blocks.outputs != 0;
    fail(ExitCode::usage,
         "The {} weight = {} is not divisible by weight quantization {} = {}. Use a smaller "
         "--tensor-parallel-size or --enable-expert-parallel.",
         outputs ? "output_size of gate's and up's" : "input_size of down's", blocks.intermediate,
         outputs ? "block_n" : "block_k", outputs ? blocks.outputs : blocks.inputs);
  }
  scheme.block_out = fine->outputs;
  scheme.block_in = fine->inputs;
}

/// Halves groups as vLLM's kernel moe_wna16 does.
void halve_groups(const ExpertBlocks& groups, WeightScheme& scheme) {
  const std::optional<ExpertBlocks> fine = quantization::finer_blocks(groups);
  if (!fine) {
    fail(ExitCode::usage,
         "The experts' intermediate size per rank = {} and hidden size = {} cannot be divided into "
         "quantization groups of {} or of a half, a quarter... of it down to {}. Use a smaller "
         "--tensor-parallel-size or --enable-expert-parallel.",
         groups.intermediate, groups.hidden, scheme.group, quantization::kFinestBlock);
  }
  scheme.group = fine->inputs;
}

void check_static_groups(const ExpertBlocks& groups) {
  if (groups.intermediate % groups.inputs == 0 && groups.hidden % groups.inputs == 0) return;
  fail(
      ExitCode::usage,
      "CompressedTensors WNA16 MoE with static group scales requires the MoE intermediate size per "
      "tensor-parallel partition ({}) and the hidden size ({}) to be divisible by group_size ({}). "
      "Use a compatible --tensor-parallel-size or --enable-expert-parallel.",
      groups.intermediate, groups.hidden, groups.inputs);
}

/// Fits a scheme to a rank's slice of experts, and returns the kind of their layer.
LayerKind fit_experts(int64_t slice, int64_t hidden, bool split, WeightScheme& scheme) {
  using enum model::UnevenBlocks;
  const int64_t group = scheme.group;
  const bool refines = scheme.refine_expert_blocks;
  switch (scheme.format) {
    case WeightFormat::fp8:
    case WeightFormat::int8:
      if (scheme.scales != Scales::block) break;
      fit_blocks({scheme.block_out, scheme.block_in, slice, hidden, refines ? refined : refused},
                 split || scheme.block_out == 1, scheme);
      break;
    case WeightFormat::packed:
      if (group > 0) check_static_groups({group, group, slice, hidden});
      break;
    case WeightFormat::awq:
    case WeightFormat::gptq:
      if (quantization::suits_marlin(group, hidden) && (group <= 0 || slice % group == 0)) break;
      [[fallthrough]];
    case WeightFormat::quark_int4:
      halve_groups({1, group, slice, hidden, needed}, scheme);
      return LayerKind::turned_experts;
    default:
      break;
  }
  return LayerKind::experts;
}

}  // namespace

Amount expert_bytes(const WeightScheme& stated, const ExpertShape& shape, int64_t element) {
  WeightScheme scheme = quantization::groups_as_blocks(stated);
  const int64_t slice = shape.intermediate.value(), hidden = shape.hidden.value();
  const LayerKind kind = fit_experts(slice, hidden, shape.split, scheme);
  const MatrixShape up{hidden, hidden, std::vector<int64_t>(shape.up_matrices, slice)};
  const MatrixShape down{slice, slice, {hidden}};
  Amount bytes = 0;
  for (const MatrixShape& matrix : {up, down}) {
    bytes += sum_of_parameters(scheme, kind, matrix, element);
  }
  const bool has_place = scheme.format == WeightFormat::gptq && kind == LayerKind::experts;
  if (shape.bias && !has_place) {
    bytes += (shape.up_matrices * shape.intermediate + shape.hidden) * element;
  }
  if (shape.ordered && scheme.format == WeightFormat::packed) {
    bytes += 2 * (shape.hidden + shape.intermediate) * kInt32;
  }
  return shape.experts * bytes;
}

}  // namespace plimsoll::vllm
