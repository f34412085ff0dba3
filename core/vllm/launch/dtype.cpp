// The dtype that vLLM computes in (vllm/config/model.py: _resolve_auto_dtype).
#include "vllm/launch/dtype.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "hardware/capability.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kFallsBack{0, 9, 1};  // before, dtypes that the card lacks were refused

/// Models whose activations overflow float16, by `model_type`, and the releases that say so.
struct WithoutFloat16 {
  std::string_view model_type;
  VllmVersion since = kFallsBack;
  VllmVersion until = {1, 0, 0};  // not this one
};
constexpr auto kWithoutFloat16 = std::to_array<WithoutFloat16>({
    {"gemma2"},
    {"gemma3"},
    {"gemma3_text", {0, 10, 2}},
    {"glm4"},
    {"plamo2", kFallsBack, {0, 27, 0}},
});

bool lacks_float16(std::string_view model_type, const VllmVersion& version) {
  return std::any_of(kWithoutFloat16.begin(), kWithoutFloat16.end(), [&](const auto& row) {
    return row.model_type == model_type && version >= row.since && version < row.until;
  });
}

std::string full_name(std::string dtype) {
  constexpr std::string_view kPrefix = "torch.";
  if (dtype.starts_with(kPrefix)) dtype.erase(0, kPrefix.size());
  if (dtype == "half" || dtype == "fp16") return "float16";
  if (dtype == "bf16") return "bfloat16";
  if (dtype == "float" || dtype == "fp32") return "float32";
  return dtype;
}

/// Models that answer with vectors: encoders, rewards, and configs that name no architecture.
bool is_pooling(const ConfigView& config) {
  const std::vector<std::string> names = config.texts({"architectures"});
  if (names.empty()) return true;
  const std::string& name = names.front();
  for (const char* mark : {"MaskedLM", "SequenceClassification", "TokenClassification",
                           "RewardModel", "ForEmbedding"}) {
    if (name.find(mark) != std::string::npos) return true;
  }
  return name.ends_with("Model") && !name.ends_with("LMHeadModel") && !name.ends_with("ChatModel");
}

/// The dtypes that card and model take, the preferred one first.
std::vector<std::string> supported_dtypes(std::string_view model_type, const VllmVersion& version,
                                          const hardware::Gpu* gpu) {
  std::vector<std::string> dtypes;
  if (hardware::capability_of(gpu).bfloat16) dtypes.emplace_back("bfloat16");
  if (!lacks_float16(model_type, version)) dtypes.emplace_back("float16");
  dtypes.emplace_back("float32");
  return dtypes;
}

std::string auto_dtype(const ConfigView& config, const VllmVersion& version,
                       const hardware::Gpu* gpu) {
  const ConfigView text = text_config(config);
  const std::string stated = full_name(
      text.text({"dtype", "torch_dtype"}, config.text({"dtype", "torch_dtype"}, "float32")));
  const std::string type = config.text({"model_type"}, "");
  if (version < kFallsBack) {
    if (stated != "float32") return stated;
    return type == "gemma2" || type == "plamo2" ? "bfloat16" : "float16";
  }
  const std::vector<std::string> supported = supported_dtypes(type, version, gpu);
  const auto has = [&](const std::string& dtype) {
    return std::find(supported.begin(), supported.end(), dtype) != supported.end();
  };
  const std::string preferred =
      is_pooling(config) && has("float16") ? "float16" : supported.front();
  return stated == "float32" || !has(stated) ? preferred : stated;
}

}  // namespace

std::string resolve_dtype(const ConfigView& config, const EngineArgs& args,
                          const hardware::Gpu* gpu) {
  std::string dtype = full_name(args.dtype);
  if (dtype == "auto") dtype = auto_dtype(config, args.version, gpu);
  if (dtype != "bfloat16" && dtype != "float16" && dtype != "float32") {
    fail(ExitCode::usage, "--dtype {}: expected auto, bfloat16, float16 or float32", dtype);
  }
  const std::string type = config.text({"model_type"}, "");
  if (dtype == "float16" && lacks_float16(type, args.version)) {
    fail(ExitCode::usage,
         "The model type '{}' does not support float16. Reason: Numerical instability. Please use "
         "bfloat16 or float32 instead. Use --dtype {}.",
         type, supported_dtypes(type, args.version, gpu).front());
  }
  if (dtype == "bfloat16" && !hardware::capability_of(gpu).bfloat16) {
    fail(ExitCode::usage,
         "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your {} GPU "
         "has compute capability {:.1f}. You can use float16 instead by explicitly setting the "
         "`dtype` flag in CLI, for example: --dtype=half.",
         gpu->name, gpu->compute_capability);
  }
  return dtype;
}

}  // namespace plimsoll::vllm
