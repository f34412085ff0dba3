#include "vllm/launch/engine_choice.h"

#include <algorithm>
#include <iterator>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "hardware/capability.h"
#include "model/vllm/classes.h"
#include "vllm/launch/class_rules.h"
#include "vllm/launch/dtype.h"
#include "vllm/launch/runner.h"

namespace plimsoll::vllm {
namespace {

using Names = std::string_view;  // words with a space between them

constexpr VllmVersion kSecondAlone{0, 11, 0};
// Releases from which the second engine has what it lacked.
constexpr VllmVersion kOldCards{0, 10, 2};
constexpr VllmVersion kOffload{0, 8, 3};
constexpr VllmVersion kBitsandbytes{0, 8, 3};
constexpr VllmVersion kGguf{0, 9, 0};
constexpr VllmVersion kAdapters{0, 8, 3};  // by default
constexpr VllmVersion kStagesOfRay{0, 8, 3};
constexpr VllmVersion kStagesOfProcesses{0, 9, 0};
constexpr VllmVersion kStagesOfItself{0, 9, 1};
constexpr VllmVersion kDrafts{0, 9, 0};  // by default
constexpr VllmVersion kAllDrafts{0, 10, 0};
constexpr VllmVersion kCacheTypes{0, 8, 2};
constexpr VllmVersion kAnyTypeOnBlackwell{0, 10, 0};
constexpr VllmVersion kTypesByBackend{0, 10, 2};
constexpr VllmVersion kFloat32{0, 9, 2};
constexpr VllmVersion kPooling{0, 9, 2};

/// A flag that asks for what the second engine lacks in releases before `until`.
struct FlagRule {
  std::string_view flag;
  VllmVersion until;
  Names has = {};            // values that it does not lack
  Names lacks = {};          // values that it lacks; empty: all but those
  const char* name = "{0}";  // vLLM's, of the flag {0} and its value {1}
};

constexpr FlagRule kFlagRules[] = {
    {"--load-format", {0, 9, 0}, {}, "tensorizer", "--load_format {1}"},
    {"--load-format", kSecondAlone, {}, "sharded_state", "--load_format {1}"},
    {"--logits-processor-pattern", kSecondAlone},
    {"--preemption-mode", kSecondAlone},
    {"--disable-async-output-proc", kSecondAlone},
    {"--scheduling-policy", {0, 9, 2}, "fcfs"},
    {"--worker-cls", {0, 8, 2}, "auto"},
    {"--worker-extension-cls", {0, 8, 2}},
    {"--num-scheduler-steps", {0, 10, 1}, "1"},
    {"--scheduler-delay-factor", kSecondAlone, "0 0.0"},
    {"--additional-config", {0, 8, 5}},
    {"--guided-decoding-backend", {0, 8, 2}, "xgrammar"},
    {"--guided-decoding-backend", {0, 10, 0}, "auto xgrammar guidance", {}, "{0}={1}"},
    {"--guided-decoding-backend", {0, 10, 1}, "auto xgrammar guidance outlines", {}, "{0}={1}"},
    {"--enable-prompt-adapter", {0, 10, 0}},
    {"--enable-prompt-embeds", kSecondAlone},
    {"--model-impl", {0, 8, 3}, {}, "transformers", "model_impl={1}"},
    {"--max-num-partial-prefills", kSecondAlone, "1", {}, "Concurrent Partial Prefill"},
    {"--max-long-partial-prefills", kSecondAlone, "1", {}, "Concurrent Partial Prefill"},
    {"--long-prefill-token-threshold", {0, 8, 3}, "0", {}, "Concurrent Partial Prefill"},
    {"--otlp-traces-endpoint", {0, 10, 2}},
    {"--collect-detailed-traces", {0, 10, 2}, {}, {}, "--otlp-traces-endpoint"},
    {"--kv-transfer-config", {0, 8, 5}},
};

constexpr std::string_view kExecutor = "--distributed-executor-backend";

/// Since which release the second engine has something, by vLLM's name of it.
struct Since {
  std::string_view name;
  VllmVersion release;
};

/// Values of VLLM_ATTENTION_BACKEND.
constexpr Since kBackends[] = {
    {"FLASH_ATTN_VLLM_V1", {0, 8, 0}},  {"FLASH_ATTN", {0, 8, 0}},
    {"TRITON_MLA", {0, 8, 0}},          {"FLASHMLA", {0, 8, 0}},
    {"TRITON_ATTN_VLLM_V1", {0, 8, 2}}, {"FLASHINFER", {0, 8, 5}},
    {"FLASHINFER_VLLM_V1", {0, 8, 5}},  {"CUTLASS_MLA_VLLM_V1", {0, 9, 1}},
    {"TORCH_SDPA_VLLM_V1", {0, 9, 1}},  {"FLEX_ATTENTION", {0, 9, 1}},
    {"CUTLASS_MLA", {0, 10, 1}},        {"FLASHMLA_VLLM_V1", {0, 10, 2}},
    {"TREE_ATTN", {0, 10, 1}},          {"XFORMERS_VLLM_V1", {0, 10, 1}},
    {"FLASH_ATTN_MLA", {0, 10, 2}},     {"FLASHINFER_MLA", {0, 10, 2}},
};

/// Ways of drafting tokens; those of no row: since kAllDrafts.
constexpr Since kMethods[] = {
    {"ngram", {0, 8, 0}}, {"eagle", {0, 8, 3}},      {"eagle3", {0, 8, 5}},
    {"medusa", kDrafts},  {"deepseek_mtp", kDrafts},
};

bool holds(Names names, std::string_view value) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == value) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

bool lacks(const FlagRule& rule, const EngineArgs& args) {
  const auto given = args.beside.find(std::string(rule.flag));
  if (args.version >= rule.until || given == args.beside.end()) return false;
  const std::string_view value = given->second;
  const std::string_view kind = value.substr(0, value.find(':'));  // "xgrammar:no-fallback"
  return rule.lacks.empty() ? !holds(rule.has, kind) : holds(rule.lacks, value);
}

std::string beside(const EngineArgs& args, std::string_view flag) {
  const auto given = args.beside.find(std::string(flag));
  return given == args.beside.end() ? "" : given->second;
}

/// Whether the second engine's kernels read a cache of the stated type: FlashAttention 3 alone
/// reads fp8, on Hopper (vllm/platforms/cuda.py: is_kv_cache_dtype_supported).
bool has_cache_type(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu) {
  if (args.version < kCacheTypes) return false;
  const double capability = gpu == nullptr ? 0 : gpu->compute_capability;
  const std::string& backend = args.attention_backend;
  const bool flash = backend.empty() || backend == "FLASH_ATTN_VLLM_V1";
  const bool fp8 = args.kv_cache_dtype.starts_with("fp8");
  const bool blackwell = capability == 10.0;  // a B300 (10.3) is none to vLLM
  const bool hopper = hardware::capability_of(gpu).architecture == hardware::Architecture::hopper;
  const bool flash_reads = flash && fp8 && hopper;
  if (args.version < kTypesByBackend)
    return flash_reads || (blackwell && args.version >= kAnyTypeOnBlackwell);
  constexpr double kLeastCapability = 8.9;
  const bool has_fp8 = gpu == nullptr || capability >= kLeastCapability;
  if (caches_latents(config))
    return !fp8 || backend.empty() || backend == "FLASHMLA" || backend == "CUTLASS_MLA";
  return blackwell || flash_reads || (flash && !fp8) || backend == "FLASHINFER" ||
         (backend == "TRITON_ATTN_VLLM_V1" && has_fp8);
}

bool has(std::span<const Since> known, std::string_view name, const VllmVersion& version,
         const VllmVersion& others) {
  const auto row = std::ranges::find(known, name, &Since::name);
  return version >= (row == known.end() ? others : row->release);
}

/// What of the model the second engine lacks; empty: nothing.
std::string lacking_model(const ConfigView& config, const EngineArgs& args,
                          const hardware::Gpu* gpu) {
  const VllmVersion& version = args.version;
  if (version < kFloat32 && resolve_dtype(config, args, gpu) == "float32")
    return "--dtype torch.float32";
  const std::string method = args.quantization.empty()
                                 ? config.child({"quantization_config"}).text({"quant_method"}, "")
                                 : args.quantization;
  if ((method == "bitsandbytes" && version < kBitsandbytes) ||
      (method == "gguf" && version < kGguf))
    return "--quantization " + method;
  const std::string& task = args.pooling.task;
  if (version < kPooling && runner_of(config, args).pools)
    return task == "auto" ? "--task" : "--task " + task;
  const std::string name = architecture_name(config);
  const auto known = model::find_class(name);
  return known && version < known->v1_if_asked ? name : "";
}

/// Stages in processes of their own, as vLLM has them without Ray; empty: they are not lacking.
std::string lacking_stages(const EngineArgs& args) {
  const VllmVersion& version = args.version;
  if (args.pipeline_parallel == 1 || version < kStagesOfRay || version >= kStagesOfItself)
    return "";
  const bool early = version < kStagesOfProcesses;
  if (holds(early ? "ray" : "ray mp external_launcher", beside(args, kExecutor))) return "";
  return fmt::format("Pipeline Parallelism without Ray distributed executor{}",
                     early ? "" : " or multiprocessing executor or external launcher");
}

/// What the second engine lacks of the launch, by vLLM's name of it; empty: nothing.
std::string lacking(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu) {
  const VllmVersion& version = args.version;
  for (const FlagRule& rule : kFlagRules)
    if (lacks(rule, args))
      return fmt::format(fmt::runtime(rule.name), rule.flag, beside(args, rule.flag));
  constexpr double kAmpere = 8;
  const bool old =
      gpu != nullptr && gpu->compute_capability > 0 && gpu->compute_capability < kAmpere;
  if (old && version < kOldCards) return "Compute Capability < 8.0";
  if (args.kv_cache_dtype != "auto" && !has_cache_type(config, args, gpu))
    return "--kv-cache-dtype";
  if (args.cpu_offload > 0 && version < kOffload) return "--cpu-offload-gb";
  if (std::string model = lacking_model(config, args, gpu); !model.empty()) return model;
  if (!args.draft_method.empty() && !has(kMethods, args.draft_method, version, kAllDrafts))
    return "Speculative Decoding";
  if (const std::string& backend = args.attention_backend;
      !backend.empty() && !has(kBackends, backend, version, kSecondAlone))
    return "VLLM_ATTENTION_BACKEND=" + backend;
  return lacking_stages(args);
}

/// What the second engine has, but not by default; empty: nothing.
std::string experimental(const ConfigView& config, const EngineArgs& args) {
  const VllmVersion& version = args.version;
  if (args.lora && version < kAdapters) return "LORA";
  if (args.pipeline_parallel > 1 && version < kStagesOfRay) return "PP";
  if (!args.draft_method.empty() && version < kDrafts)
    return args.draft_method == "ngram" ? "ngram" : "Eagle";
  const auto known = model::find_class(architecture_name(config));
  return known && version < known->v1 ? "Mamba" : "";
}

/// vllm/platforms/cuda.py: check_and_update_config.
void check_drafts(const EngineArgs& args) {
  if (args.draft_method.empty() || args.version < kAllDrafts) return;
  fail(ExitCode::usage,
       "Speculative decoding is not supported on vLLM V0. Leave --speculative-config out, or what "
       "the V1 engine lacks.");
}

EngineChoice of_both(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu) {
  if (args.use_v1 == false) return {true, "VLLM_USE_V1=0: the V0 engine"};
  const std::string lacks = lacking(config, args, gpu);
  if (!lacks.empty() && args.use_v1 == true) {
    fail(ExitCode::usage, "VLLM_USE_V1=1 is not supported with {}. Leave VLLM_USE_V1 out.", lacks);
  }
  if (!lacks.empty()) {
    return {true, fmt::format("{} is not supported by the V1 Engine. Falling back to V0.", lacks)};
  }
  const std::string tried = args.use_v1 == true ? "" : experimental(config, args);
  if (tried.empty()) return {};
  return {true,
          fmt::format("{} is experimental on VLLM_USE_V1=1. Falling back to V0 Engine.", tried)};
}

}  // namespace

EngineChoice choose_engine(const ConfigView& config, const EngineArgs& args,
                           const hardware::Gpu* gpu) {
  if (args.version < kTwoEngines) {
    return {true, args.use_v1 == true
                      ? "VLLM_USE_V1=1: how this release's V1 engine takes memory is not known to "
                        "plan; this is its V0 engine"
                      : ""};
  }
  if (args.version >= kSecondAlone)
    return {false, args.use_v1 == false ? "VLLM_USE_V1=0: this release has no V0 engine" : ""};
  EngineChoice choice = of_both(config, args, gpu);
  if (choice.first) check_drafts(args);
  return choice;
}

bool may_choose_engine(std::string_view flag) {
  return flag == kExecutor ||
         std::ranges::find(kFlagRules, flag, &FlagRule::flag) != std::end(kFlagRules);
}

bool runs_first_engine(const EngineArgs& args) {
  return args.version < kTwoEngines || (args.version < kSecondAlone && args.first_engine);
}

bool uses_second_runner(const EngineArgs& args, const ModelShape& shape) {
  const VllmVersion& version = args.version;
  const std::string& method = args.draft_method;
  if (!args.second_runner.value_or(true)) return false;
  if (version >= VllmVersion{0, 29, 0}) {
    const bool drafts = method == "suffix" || method == "medusa" || method == "mlp_speculator" ||
                        method == "custom_class";
    const bool looks_back = method.starts_with("ngram") && version < VllmVersion{0, 32, 0};
    return !drafts && !looks_back;
  }
  if (shape.recurrent || shape.pools || method.starts_with("ngram")) return false;
  const bool asked = args.second_runner.value_or(false);
  if (version >= VllmVersion{0, 25, 0} && (!shape.mixture || asked)) return true;
  const auto known = model::find_class(shape.architecture);
  return known && known->second_runner && version >= *known->second_runner;
}

}  // namespace plimsoll::vllm
