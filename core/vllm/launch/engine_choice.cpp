#include "vllm/launch/engine_choice.h"

#include <fmt/format.h>

#include "base/error.h"
#include "hardware/capability.h"
#include "model/vllm/types.h"
#include "vllm/launch/dtype.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {
namespace {

using model::Releases;

constexpr VllmVersion kSecondAlone{0, 11, 0};
// What the second engine lacks, and to which release.
constexpr Releases kNoOldCards{kFirstEngineOnly, {0, 10, 2}};
constexpr Releases kNoOffload{kFirstEngineOnly, {0, 8, 3}};
constexpr Releases kNoBitsandbytes{kFirstEngineOnly, {0, 8, 3}};
constexpr Releases kNoAdapters{kFirstEngineOnly, {0, 8, 3}};  // by default
constexpr Releases kNoStages{kFirstEngineOnly, {0, 9, 0}};    // by default, without Ray
constexpr Releases kNoDrafts{kFirstEngineOnly, {0, 9, 0}};    // n-grams by default, others at all
constexpr Releases kNoDraftModels{kFirstEngineOnly, {0, 10, 0}};
constexpr Releases kNoCacheTypes{kFirstEngineOnly, {0, 8, 2}};
constexpr Releases kNoFlashInfer{kFirstEngineOnly, {0, 8, 5}};
constexpr Releases kNoFloat32{kFirstEngineOnly, {0, 9, 2}};
constexpr VllmVersion kAnyOnBlackwell{0, 10, 0};
constexpr VllmVersion kTypesByBackend{0, 10, 2};

/// Whether the second engine's kernels read a cache of the stated type: FlashAttention 3 alone
/// reads fp8, on Hopper (vllm/platforms/cuda.py: is_kv_cache_dtype_supported).
bool has_cache_type(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu) {
  if (kNoCacheTypes.hold(args.version)) return false;
  const hardware::Architecture card = hardware::capability_of(gpu).architecture;
  const std::string& backend = args.attention_backend;
  const bool flash = backend.empty() || backend == "FLASH_ATTN_VLLM_V1";
  const bool fp8 = args.kv_cache_dtype.starts_with("fp8");
  const bool blackwell = card == hardware::Architecture::blackwell;
  const bool flash_reads = flash && fp8 && card == hardware::Architecture::hopper;
  if (args.version < kTypesByBackend)
    return flash_reads || (blackwell && args.version >= kAnyOnBlackwell);
  constexpr double kLeastCapability = 8.9;
  const bool has_fp8 = gpu == nullptr || gpu->compute_capability >= kLeastCapability;
  if (text_config(config).integer({"kv_lora_rank"}, 0) > 0)
    return !fp8 || backend.empty() || backend == "FLASHMLA" || backend == "CUTLASS_MLA";
  return blackwell || flash_reads || (flash && !fp8) || backend == "FLASHINFER" ||
         (backend == "TRITON_ATTN_VLLM_V1" && has_fp8);
}

/// Whether the second engine has this way of drafting tokens, by default or not.
bool has_drafts(const std::string& method, const VllmVersion& version) {
  if (method.empty() || method == "ngram" || method == "eagle" || method == "eagle3") return true;
  const bool since_stages = method == "medusa" || method == "deepseek_mtp";
  return !(since_stages ? kNoDrafts : kNoDraftModels).hold(version);
}

/// What the second engine lacks of the launch, by vLLM's name of it; empty: nothing.
std::string lacking(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu) {
  const VllmVersion& version = args.version;
  const std::string& backend = args.attention_backend;
  constexpr double kAmpere = 8;
  const bool old =
      gpu != nullptr && gpu->compute_capability > 0 && gpu->compute_capability < kAmpere;
  if (old && kNoOldCards.hold(version)) return "Compute Capability < 8.0";
  if (args.kv_cache_dtype != "auto" && !has_cache_type(config, args, gpu))
    return "--kv-cache-dtype";
  if (args.cpu_offload > 0 && kNoOffload.hold(version)) return "--cpu-offload-gb";
  if (kNoFloat32.hold(version) && resolve_dtype(config, args, gpu) == "float32")
    return "--dtype torch.float32";
  const std::string stated = args.quantization.empty()
                                 ? config.child({"quantization_config"}).text({"quant_method"}, "")
                                 : args.quantization;
  if (stated == "bitsandbytes" && kNoBitsandbytes.hold(version))
    return "--quantization bitsandbytes";
  if (!has_drafts(args.draft_method, version)) return "Speculative Decoding";
  if (backend == "XFORMERS" || backend == "TORCH_SDPA" ||
      (backend == "FLASHINFER" && kNoFlashInfer.hold(version)))
    return "VLLM_ATTENTION_BACKEND=" + backend;
  return "";
}

/// What the second engine has, but not by default; empty: nothing.
std::string experimental(const EngineArgs& args) {
  const VllmVersion& version = args.version;
  if (args.lora && kNoAdapters.hold(version)) return "LORA";
  if (args.pipeline_parallel > 1 && kNoStages.hold(version))
    return "Pipeline Parallelism without Ray distributed executor";
  if (!args.draft_method.empty() && kNoDrafts.hold(version))
    return args.draft_method == "ngram" ? "ngram" : "Eagle";
  return "";
}

}  // namespace

EngineChoice choose_engine(const ConfigView& config, const EngineArgs& args,
                           const hardware::Gpu* gpu) {
  if (args.version < kFirstEngineOnly) {
    const bool second = args.first_engine == false;
    return {true, second
                      ? "VLLM_USE_V1=1: how this release's V1 engine takes memory is not known to "
                        "plan; this is its V0 engine"
                      : ""};
  }
  if (args.version >= kSecondAlone)
    return {false, args.first_engine == true ? "VLLM_USE_V1=0: this release has no V0 engine" : ""};
  if (args.first_engine == true) return {true, "VLLM_USE_V1=0: the V0 engine"};
  const std::string lacks = lacking(config, args, gpu);
  if (!lacks.empty() && args.first_engine == false) {
    fail(ExitCode::usage, "VLLM_USE_V1=1 is not supported with {}. Leave VLLM_USE_V1 out.", lacks);
  }
  if (!lacks.empty()) {
    return {true, fmt::format("{} is not supported by the V1 Engine. Falling back to V0.", lacks)};
  }
  const std::string tried = args.first_engine == false ? "" : experimental(args);
  if (tried.empty()) return {};
  return {true,
          fmt::format("{} is experimental on VLLM_USE_V1=1. Falling back to V0 Engine.", tried)};
}

bool runs_first_engine(const EngineArgs& args) {
  return args.version < kFirstEngineOnly ||
         (args.version < kSecondAlone && args.first_engine.value_or(false));
}

}  // namespace plimsoll::vllm
