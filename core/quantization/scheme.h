// The quantization scheme of a module, by its configuration.
#pragma once

#include <cstdint>

namespace plimsoll::quantization {

enum class WeightFormat : uint8_t {
  plain,         // elements of the model's dtype
  fp8,           // one byte per weight, scales by `Scales`
  int8,          // one byte per weight, scales by `Scales`
  awq,           // int4 packed along the output, zero points and scales by group
  gptq,          // packed along the input, zero points and scales by group, one index per input
  packed,        // compressed-tensors' pack-quantized: scales by group, zero points if asymmetric
  quark_int4,    // AMD Quark's, packed along the output like awq
  nvfp4,         // 4 bits, an fp8 scale for each group of 16, float32 scales per matrix
  mxfp4,         // 4 bits, an 8-bit exponent for each group of 32
  bitsandbytes,  // 4 or 8 bits; its constants are kept outside the parameters
  ggml           // blocks of a GGUF file, each tensor of a type of its own
};

enum class Scales : uint8_t { tensor, channel, block };

/// Type that activations are rounded to, where the format's name does not say it.
enum class TokenInputs : uint8_t {
  by_format,
  int8,
  int8_zeros,
  int8_static_zeros,
  fp8,
  mxfp4,
  mxfp8
};

/// One scheme for one module; what a field means depends on `format`.
struct WeightScheme {
  WeightFormat format = WeightFormat::plain;
  Scales scales = Scales::tensor;
  int64_t bits = 16;
  int64_t group = 0;      // weights sharing a scale; 0: the whole input
  int64_t block_out = 0;  // for Scales::block
  int64_t block_in = 0;
  int64_t scale_bytes = 4;    // of one block scale
  bool static_input = false;  // a float32 activation scale is stored beside each matrix
  TokenInputs token_inputs = TokenInputs::by_format;
  const char* inputs_not_run = nullptr;  // how activations are rounded, where run does not
  const char* layout_not_run = nullptr;  // an order of codes that run does not read
  bool input_bound = false;     // with `most_input`: one bound of activation scales for each layer
  float most_input = 0;         // bound of the activations (fbgemm's activation_scale_ub)
  bool zero_points = false;     // of the codes; int8: the layer has a parameter for them
  bool ordered_groups = false;  // gptq's desc_act: every rank holds every group's scale
  bool indexed_inputs = false;  // packed: the checkpoint has each input's group
  bool refine_expert_blocks = false;  // block scales are refined when a rank's slice cuts a block
  bool check_merged = false;          // fused matrices must begin on a block
  bool whole_inputs = false;          // activations are not quantized
  bool zeros_as_stored = false;       // gptq_v2: zero points are not stored one less than they are
  bool nested_scales = false;         // bitsandbytes: scales are themselves quantized
  bool unused_input = false;  // an activation scale of the model's dtype is loaded and dropped

  [[nodiscard]] bool plain() const { return format == WeightFormat::plain; }
  bool operator==(const WeightScheme&) const = default;
};

// The schemes that several methods have.

/// Text of `inputs_not_run` for weights in blocks that are not 128 inputs wide.
inline constexpr const char* kOtherGroups = "8 bits by groups of inputs that are not 128";

/// fp8 with one scale for each matrix.
inline WeightScheme tensor_fp8(bool static_input) {
  return {.format = WeightFormat::fp8, .bits = 8, .static_input = static_input};
}
/// fp8 with one scale for each output.
inline WeightScheme channel_fp8() {
  return {.format = WeightFormat::fp8, .scales = Scales::channel, .bits = 8};
}
/// fp8 with one scale for each block of outputs x inputs.
inline WeightScheme block_fp8(int64_t outputs, int64_t inputs) {
  return {.format = WeightFormat::fp8,
          .scales = Scales::block,
          .bits = 8,
          .block_out = outputs,
          .block_in = inputs,
          .inputs_not_run = inputs == 128 ? nullptr : kOtherGroups};
}
/// NVFP4: floats of four bits, a float8 scale for each 16 inputs, and a float32 scale for these.
inline WeightScheme nvfp4(int64_t group = 16, bool static_input = true) {
  return {.format = WeightFormat::nvfp4, .bits = 4, .group = group, .static_input = static_input};
}
/// MXFP4, the OCP's microscaling: an exponent for each 32 inputs.
inline WeightScheme mxfp4() {
  return {.format = WeightFormat::mxfp4, .bits = 4, .group = 32};
}

}  // namespace plimsoll::quantization
