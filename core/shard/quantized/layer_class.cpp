#include "shard/quantized/layer_class.h"

#include <algorithm>
#include <array>

namespace plimsoll::shard {
namespace {

// vllm/model_executor/layers/quantization of 0.32.
constexpr auto kClasses = std::to_array<LayerClass>({
    {.method = "fp8", .block_scales = "weight_scale_inv"},
    {.method = "fbgemm_fp8"},
    {.method = "modelopt", .four_axes = true, .scale_vectors = true, .any_group = true},
    {.method = "quark",
     .scale_vectors = true,
     .input_scale = "input_scale_2",
     .second_first = false,
     .pads_experts = true},
    {.method = "compressed-tensors",
     .codes = "weight_packed",
     .second_scale = "weight_global_scale",
     .input_scale = "input_global_scale",
     .quantizes_head = true},
    {.method = "awq", .quantizes_head = true},
    {.method = "gptq", .quantizes_head = true},
});

// ModelOpt's method has several names: modelopt, modelopt_fp4, modelopt_mxfp8, modelopt_mixed.
bool is_of(const LayerClass& row, const std::string& method) {
  return row.method == "modelopt" ? method.starts_with(row.method) : method == row.method;
}

}  // namespace

const LayerClass* find_layer_class(const std::string& method) {
  const auto row =
      std::ranges::find_if(kClasses, [&](const LayerClass& known) { return is_of(known, method); });
  return row == kClasses.end() ? nullptr : &*row;
}

}  // namespace plimsoll::shard
