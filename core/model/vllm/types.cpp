#include "model/vllm/types.h"

#include <algorithm>
#include <array>

namespace plimsoll::model {
namespace {

constexpr Releases kSinceFallback{kDtypeFallsBack};
constexpr auto kTypes = std::to_array<VllmType>({
    {.model_type = "chatglm", .unmapped = true},
    {.model_type = "gemma2", .without_float16 = kSinceFallback, .was_bfloat16 = true},
    {.model_type = "gemma3", .without_float16 = kSinceFallback, .stretched = true},
    {.model_type = "gemma3_text", .without_float16 = {{0, 10, 2}}, .stretched = true},
    {.model_type = "gemma3n", .stretched = true},
    {.model_type = "gemma3n_text", .stretched = true},
    {.model_type = "glm4", .without_float16 = kSinceFallback},
    {.model_type = "internlm2", .unmapped = true},
    {.model_type = "kimi_k2", .unmapped = true},
    {.model_type = "minicpm", .unmapped = true},
    {.model_type = "olmo_hybrid", .own_prefill = true},
    {.model_type = "plamo2",
     .without_float16 = {kDtypeFallsBack, {0, 27, 0}},
     .was_bfloat16 = true},
});

}  // namespace

const VllmType& vllm_type(std::string_view model_type) {
  static constexpr VllmType kNothing{};
  const auto* const row = std::ranges::find(kTypes, model_type, &VllmType::model_type);
  return row == kTypes.end() || model_type.empty() ? kNothing : *row;
}

std::string auto_dtype(const std::string& stated, std::string_view model_type,
                       const VllmVersion& version, bool card_has_bfloat16, bool pooling) {
  const VllmType& type = vllm_type(model_type);
  if (version < kDtypeFallsBack) {
    if (stated != "float32") return stated;
    return type.was_bfloat16 ? "bfloat16" : "float16";
  }
  const bool half = !type.without_float16.hold(version);
  if (stated == "bfloat16" && card_has_bfloat16) return stated;
  if (stated == "float16" && half) return stated;
  if (pooling && half) return "float16";
  if (card_has_bfloat16) return "bfloat16";
  return half ? "float16" : "float32";
}

}  // namespace plimsoll::model
