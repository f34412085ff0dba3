#include "vllm/shapes/weight_scheme.h"

#include <numeric>

#include "base/error.h"

namespace plimsoll::vllm {
namespace {

constexpr int64_t kInt32 = 4;
constexpr int64_t kShapeRecord = 16;  // compressed-tensors keeps the unpacked shape, two int64

void check_divides(Amount size, int64_t block, const char* which, const char* block_name) {
  if (size.value() % block == 0) return;
  fail(ExitCode::usage,
       "Weight {} = {} is not divisible by weight quantization {} = {}. Use a smaller "
       "--tensor-parallel-size.",
       which, size.value(), block_name, block);
}

/// Checks blocks as vLLM does: a slice must not cut a block, and fused matrices must begin on one.
void check_blocks(const WeightScheme& scheme, const MatrixShape& shape, Amount outputs) {
  if (shape.inputs < shape.full_inputs) {
    check_divides(shape.inputs, scheme.block_in, "input_size_per_partition", "block_k");
  }
  const bool split = outputs < shape.full_outputs;
  const bool merged = shape.widths.size() > 1;
  if ((!split && !merged) || (merged && !scheme.check_merged)) return;
  const size_t checked = split ? shape.widths.size() : shape.widths.size() - 1;
  for (size_t i = 0; i < checked; ++i) {
    check_divides(shape.widths[i], scheme.block_out, "output_partition_size", "block_n");
  }
}

Amount eight_bit_bytes(const WeightScheme& scheme, const MatrixShape& shape, Amount outputs) {
  const auto matrices = static_cast<int64_t>(shape.widths.size());
  Amount bytes = outputs * shape.inputs;
  switch (scheme.scales) {
    case Scales::tensor:
      bytes += matrices * kFloat32;
      break;
    case Scales::channel:
      bytes += outputs * kFloat32;
      break;
    case Scales::block:
      check_blocks(scheme, shape, outputs);
      bytes += ceil_div(outputs, scheme.block_out) * ceil_div(shape.inputs, scheme.block_in) *
               scheme.scale_bytes;
      break;
  }
  if (scheme.input_bound) bytes += kFloat32;
  if (scheme.static_input) {
    bytes += scheme.format == WeightFormat::int8 ? kFloat32 : matrices * kFloat32;
  }
  return bytes;
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

/// Integers packed into 32-bit words, with scales (and zero points) for each group of inputs.
Amount packed_bytes(const WeightScheme& scheme, const MatrixShape& shape, Amount outputs,
                    int64_t element) {
  const Amount group = scheme.group > 0 ? Amount{scheme.group} : shape.full_inputs;
  if (scheme.group > 0 && scheme.format != WeightFormat::gptq) check_groups(scheme, shape);
  const bool split_inputs = shape.inputs < shape.full_inputs;
  // Groups that straddle ranks are kept whole on each of them.
  const bool repeated = split_inputs && (scheme.group <= 0 || scheme.ordered_groups);
  const Amount groups = (repeated ? shape.full_inputs : shape.inputs) / group;
  const Amount bits = scheme.bits;
  Amount bytes = groups * outputs * element;
  if (scheme.format == WeightFormat::packed) {
    bytes += outputs * ceil_div(shape.inputs * bits, 32) * kInt32 + kShapeRecord;
    if (scheme.zero_points) bytes += ceil_div(outputs * bits, 32) * groups * kInt32;
    return bytes;
  }
  bytes += shape.inputs * outputs * bits / 8 + groups * outputs * bits / 8;
  if (scheme.format == WeightFormat::gptq && scheme.ordered_groups) bytes += shape.inputs * kInt32;
  return bytes;
}

}  // namespace

Amount matrix_bytes(const WeightScheme& scheme, const MatrixShape& shape, int64_t element) {
  Amount outputs = 0;
  for (const int64_t width : shape.widths) outputs += width;
  const auto matrices = static_cast<int64_t>(shape.widths.size());
  switch (scheme.format) {
    case WeightFormat::plain:
      return outputs * shape.inputs * element;
    case WeightFormat::fp8:
    case WeightFormat::int8:
      return eight_bit_bytes(scheme, shape, outputs);
    case WeightFormat::awq:
    case WeightFormat::gptq:
    case WeightFormat::packed:
    case WeightFormat::quark_int4:
      return packed_bytes(scheme, shape, outputs, element);
    case WeightFormat::nvfp4: {
      const int64_t scalars = scheme.static_input ? 2 : 1;
      return outputs * shape.inputs / 2 + outputs * (shape.inputs / scheme.group) +
             matrices * scalars * kFloat32 + (scheme.unused_input ? matrices * element : 0);
    }
    case WeightFormat::mxfp4:
      return outputs * shape.inputs / 2 + outputs * (shape.inputs / scheme.group);
    case WeightFormat::bitsandbytes:
      return outputs * shape.inputs * scheme.bits / 8;
    case WeightFormat::ggml:  // no configuration of vLLM's names it
      break;
  }
  return 0;
}

namespace {

struct Block {
  int64_t outputs;
  int64_t inputs;
};

/// The block that the experts' scales use: where a rank's slice would cut a checkpoint's block,
/// scales are refined to what divides it.
Block expert_block(const WeightScheme& scheme, const ExpertShape& shape) {
  const int64_t slice = shape.intermediate.value();
  const Block block{scheme.block_out, scheme.block_in};
  const bool cut = slice % block.outputs != 0 || (shape.split && slice % block.inputs != 0);
  if (!cut) return block;
  const int64_t divisor =
      std::gcd(std::gcd(block.outputs, block.inputs), std::gcd(slice, shape.hidden.value()));
  constexpr int64_t kFinest = 32;
  if (!scheme.refine_expert_blocks || divisor < kFinest) {
    const bool outputs = slice % block.outputs != 0;
    fail(ExitCode::usage,
         "The {} weight = {} is not divisible by weight quantization {} = {}. Use a smaller "
         "--tensor-parallel-size or --enable-expert-parallel.",
         outputs ? "output_size of gate's and up's" : "input_size of down's", slice,
         outputs ? "block_n" : "block_k", outputs ? block.outputs : block.inputs);
  }
  return {divisor, divisor};
}

Amount expert_scale_bytes(const WeightScheme& scheme, const ExpertShape& shape) {
  const Amount up = shape.up_matrices;
  const Amount experts = shape.experts;
  switch (scheme.scales) {
    case Scales::tensor:
      return experts * (up + 1) * kFloat32;
    case Scales::channel:
      return experts * (up * shape.intermediate + shape.hidden) * kFloat32;
    case Scales::block:
      break;
  }
  const auto [block_out, block_in] = expert_block(scheme, shape);
  const Amount w13 =
      up * ceil_div(shape.intermediate, block_out) * ceil_div(shape.hidden, block_in);
  const Amount w2 = ceil_div(shape.hidden, block_out) * ceil_div(shape.intermediate, block_in);
  return experts * (w13 + w2) * scheme.scale_bytes;
}

/// One scale for each group of inputs, of both matrices.
Amount group_scales(const ExpertShape& shape, int64_t group) {
  return shape.experts * (Amount{shape.up_matrices} * shape.intermediate * (shape.hidden / group) +
                          shape.hidden * (shape.intermediate / group));
}

/// Marlin's experts take whole groups of these sizes in each rank's slice.
bool suits_marlin(const WeightScheme& scheme, const ExpertShape& shape) {
  const int64_t group = scheme.group;
  const bool size = group <= 0 || group == 32 || group == 64 || group == 128;
  const bool whole = group <= 0 || shape.intermediate.value() % group == 0;
  return size && whole && shape.hidden.value() % 128 == 0;
}

/// The group of vLLM's other kernel for experts: halved until it divides the slice.
int64_t refined_group(const WeightScheme& scheme, const ExpertShape& shape) {
  const int64_t slice = shape.intermediate.value();
  const int64_t hidden = shape.hidden.value();
  constexpr int64_t kFinest = 32;
  int64_t group = scheme.group;
  while (group >= kFinest && (slice % group != 0 || hidden % group != 0)) group /= 2;
  if (group < kFinest) {
    fail(ExitCode::usage,
         "The experts' intermediate size per rank = {} and hidden size = {} cannot be divided into "
         "quantization groups of {} or of a half, a quarter... of it down to {}. Use a smaller "
         "--tensor-parallel-size or --enable-expert-parallel.",
         slice, hidden, scheme.group, kFinest);
  }
  return group;
}

void check_static_groups(const WeightScheme& scheme, const ExpertShape& shape) {
  const int64_t slice = shape.intermediate.value();
  const int64_t hidden = shape.hidden.value();
  if (scheme.group <= 0 || (slice % scheme.group == 0 && hidden % scheme.group == 0)) return;
  fail(
      ExitCode::usage,
      "CompressedTensors WNA16 MoE with static group scales requires the MoE intermediate size per "
      "tensor-parallel partition ({}) and the hidden size ({}) to be divisible by group_size ({}). "
      "Use a compatible --tensor-parallel-size or --enable-expert-parallel.",
      slice, hidden, scheme.group);
}

/// Integers packed into words, with scales (and zero points) for each group of inputs.
Amount packed_expert_bytes(const WeightScheme& scheme, const ExpertShape& shape, int64_t element) {
  const Amount up = shape.up_matrices;
  const Amount weights = shape.experts * shape.hidden * shape.intermediate * (up + 1);
  const Amount outputs = shape.experts * (up * shape.intermediate + shape.hidden);
  const auto groups_of = [&](int64_t group) { return group > 0 ? weights / group : outputs; };
  Amount bytes = weights * scheme.bits / 8;
  if (scheme.format == WeightFormat::packed) {
    check_static_groups(scheme, shape);
    const Amount groups = groups_of(scheme.group);
    // Scales, and two records of shapes.
    bytes += groups * element + shape.experts * 2 * 2 * element;
    if (shape.ordered) bytes += shape.experts * 2 * (shape.hidden + shape.intermediate) * kInt32;
    return scheme.zero_points ? bytes + groups * scheme.bits / 8 : bytes;
  }
  if (scheme.format == WeightFormat::quark_int4) {  // zero points have their place in any case
    const Amount groups = groups_of(refined_group(scheme, shape));
    return bytes + groups * element + groups * scheme.bits / 8;
  }
  if (!suits_marlin(scheme, shape)) {
    const Amount groups = groups_of(refined_group(scheme, shape));
    bytes += groups * element;
    return scheme.zero_points ? bytes + groups * scheme.bits / 8 : bytes;
  }
  const Amount groups = groups_of(scheme.group);
  bytes += groups * element + groups * scheme.bits / 8;
  // Biases that some checkpoints hold have their place whether or not the model has any.
  if (scheme.format == WeightFormat::gptq && !shape.bias) bytes += outputs * element;
  return bytes;
}

}  // namespace

Amount expert_bytes(const WeightScheme& scheme, const ExpertShape& shape, int64_t element) {
  const Amount up = shape.up_matrices;
  const Amount weights = shape.experts * shape.hidden * shape.intermediate * (up + 1);
  Amount bytes = 0;
  if (shape.bias) bytes += shape.experts * (up * shape.intermediate + shape.hidden) * element;
  switch (scheme.format) {
    case WeightFormat::plain:
      return bytes + weights * element;
    case WeightFormat::fp8:
    case WeightFormat::int8:
      bytes += weights + expert_scale_bytes(scheme, shape);
      if (scheme.static_input) bytes += shape.experts * 2 * kFloat32;
      return bytes;
    case WeightFormat::nvfp4:
      // Two float32 scalars (weight and activation) for each of the three matrices.
      return bytes + weights / 2 + group_scales(shape, scheme.group) +
             shape.experts * (up + 1) * 2 * kFloat32;
    case WeightFormat::mxfp4:
      return bytes + weights / 2 + group_scales(shape, scheme.group);
    case WeightFormat::awq:
    case WeightFormat::gptq:
    case WeightFormat::packed:
    case WeightFormat::quark_int4:
      return bytes + packed_expert_bytes(scheme, shape, element);
    case WeightFormat::bitsandbytes:
      return bytes + weights * scheme.bits / 8;
    case WeightFormat::ggml:
      break;
  }
  return bytes;
}

}  // namespace plimsoll::vllm
