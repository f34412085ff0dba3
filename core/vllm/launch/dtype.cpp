// The dtype that vLLM computes in (vllm/config/model.py: _resolve_auto_dtype).
#include "vllm/launch/dtype.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "hardware/capability.h"
#include "model/vllm/types.h"
#include "vllm/launch/class_rules.h"
#include "vllm/launch/runner.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kQsaFp8{0, 31, 0};  // Qwen3.8-Flash-Next's attention

std::string full_name(std::string dtype) {
  constexpr std::string_view kPrefix = "torch.";
  if (dtype.starts_with(kPrefix)) dtype.erase(0, kPrefix.size());
  if (dtype == "half" || dtype == "fp16") return "float16";
  if (dtype == "bf16") return "bfloat16";
  if (dtype == "float" || dtype == "fp32") return "float32";
  return dtype;
}

/// The dtype of the checkpoint, by its config.
std::string stated_dtype(const ConfigView& config) {
  const std::string outer = config.text({"dtype", "torch_dtype"}, "float32");
  return full_name(text_config(config).text({"dtype", "torch_dtype"}, outer));
}

bool has_pooled_index(const ConfigView& config) {
  const char* const key = class_rules(config).pooled_index;
  return key != nullptr && text_config(config).has(key);
}

}  // namespace

std::string resolve_cache_dtype(const ConfigView& config, const EngineArgs& args,
                                const hardware::Gpu* gpu) {
  const ClassRules& rules = class_rules(config);
  const std::string& asked = args.kv_cache_dtype;
  if (has_pooled_index(config) && asked.starts_with("fp8") &&
      (args.version < kQsaFp8 || asked == "fp8_e5m2")) {
    fail(ExitCode::usage,
         "Qwen4Exp QSA requires a BF16{} main KV cache. Use --kv-cache-dtype auto.",
         args.version < kQsaFp8 ? "" : " or FP8-e4m3");
  }
  if (asked != "auto") return asked;
  const bool blackwell =
      hardware::capability_of(gpu).architecture == hardware::Architecture::blackwell;
  if (!rules.blackwell_cache.empty() && blackwell && args.version >= rules.blackwell_cache_since) {
    return std::string(rules.blackwell_cache);
  }
  if (args.version < rules.settles_cache) {
    fail(ExitCode::usage,
         "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got auto. Use --kv-cache-dtype "
         "fp8.");
  }
  return args.kv_cache_dtype;
}

std::string resolve_dtype(const ConfigView& config, const EngineArgs& args,
                          const hardware::Gpu* gpu) {
  const std::string type = config.text({"model_type"}, "");
  const bool wide = hardware::capability_of(gpu).bfloat16;
  std::string dtype = full_name(args.dtype);
  if (dtype == "auto") {
    // A config that names no architecture is taken for one of vectors here.
    const bool pooling = config.texts({"architectures"}).empty() || runner_of(config, args).pools;
    dtype = model::auto_dtype(stated_dtype(config), type, args.version, wide, pooling);
  }
  if (dtype != "bfloat16" && dtype != "float16" && dtype != "float32") {
    fail(ExitCode::usage, "--dtype {}: expected auto, bfloat16, float16 or float32", dtype);
  }
  if (dtype == "float16" && model::vllm_type(type).without_float16.hold(args.version)) {
    fail(ExitCode::usage,
         "The model type '{}' does not support float16. Reason: Numerical instability. Please use "
         "bfloat16 or float32 instead. Use --dtype {}.",
         type, wide ? "bfloat16" : "float32");
  }
  if (dtype != "bfloat16" && has_pooled_index(config)) {
    fail(ExitCode::usage, "Qwen4Exp QSA currently requires BF16. Use --dtype bfloat16.");
  }
  if (dtype == "bfloat16" && !wide) {
    fail(ExitCode::usage,
         "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your {} GPU "
         "has compute capability {:.1f}. You can use float16 instead by explicitly setting the "
         "`dtype` flag in CLI, for example: --dtype=half.",
         gpu->name, gpu->compute_capability);
  }
  return dtype;
}

}  // namespace plimsoll::vllm
