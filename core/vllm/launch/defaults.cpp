// Values that vLLM fills in when an argument is not given (vllm/engine/arg_utils.py, vllm/config).
#include "vllm/launch/defaults.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/amount.h"
#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "hardware/capability.h"
#include "model/vllm/classes.h"
#include "vllm/launch/class_rules.h"
#include "vllm/launch/dtype.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/length.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/runner.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kSequencesCapped{0, 10, 1};   // by the tokens of a step
constexpr VllmVersion kTokensCapped{0, 11, 1};      // by what all sequences hold
constexpr VllmVersion kWholeAtLeast{0, 11, 1};      // tokens of whole prompts; before: a context's
constexpr VllmVersion kHeedsTokens{0, 10, 1};       // of the flag, beside whole prompts
constexpr VllmVersion kFirstTokensCapped{0, 9, 0};  // in the first engine

// The first engine's prompts, which it reads in parts where contexts are long.
constexpr VllmVersion kLongInParts{0, 5, 3};
constexpr VllmVersion kCachedInParts{0, 6, 1};  // before: not with a cache of prefixes
constexpr VllmVersion kImagesWhole{0, 6, 2};
constexpr VllmVersion kLargerParts{0, 6, 5};  // 2048 tokens; before: 512
constexpr VllmVersion kLatentsWhole{0, 8, 0};

struct BatchDefaults {
  int64_t tokens;
  int64_t seqs;
};

BatchDefaults batch_defaults(const EngineArgs& args, const hardware::Gpu* gpu) {
  if (runs_first_engine(args)) return {2048, 256};
  if (args.usage == Usage::batch) return {2048, 128};
  const bool offline = args.usage == Usage::offline;
  const int64_t total = gpu != nullptr ? gpu->visible_bytes() : 0;
  const std::string name = lower_case(gpu != nullptr ? gpu->name : "");
  const auto named = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (total >= 160 * kGiB && args.version >= VllmVersion{0, 28, 0}) return {16384, 1024};
  bool large = total >= 70 * kGiB;
  if (args.version >= VllmVersion{0, 9, 0}) large = large && !named("a100");
  // Its driver does not tell its memory (NVML answers "not supported"), which vLLM takes for none;
  // 0.33 keeps it small by name.
  large = large && !is_spark(gpu);
  if (args.version < VllmVersion{0, 8, 5}) large = named("h100") || named("h200");
  const bool many = large || args.version < VllmVersion{0, 8, 4};
  return {(offline ? 8192 : 2048) * (large ? (offline ? 2 : 4) : 1), many ? 1024 : 256};
}

BatchDefaults paced_defaults(const EngineArgs& args, const hardware::Gpu* gpu) {
  const BatchDefaults usual = batch_defaults(args, gpu);
  const int64_t times = args.pace == Pace::throughput ? 2 : 1;
  return {usual.tokens * times, usual.seqs * times};
}

}  // namespace

std::optional<bool> resolve_chunking(const ConfigView& config, const EngineArgs& args) {
  constexpr VllmVersion kHeedsFlag{0, 12, 0};  // before: of the second engine's, vectors' alone
  const VllmVersion& version = args.version;
  const bool first = runs_first_engine(args), pools = runner_of(config, args).pools;
  if (args.chunked_prefill && (first || version >= kHeedsFlag)) return args.chunked_prefill;
  if (reads_whole_prompts(config)) return false;
  if (pools && (first || !pools_in_parts(config, args))) return false;
  if (pools && args.chunked_prefill) return args.chunked_prefill;
  if (!first || version < kLongInParts) return std::nullopt;
  constexpr int64_t kLong = 32768;
  const int64_t usual = model_length(config, version).usual;
  if ((args.max_model_len > 0 ? args.max_model_len : usual) <= kLong) return false;
  const ConfigView text = text_config(config);
  const bool windows = text.has("sliding_window") && text.flag({"use_sliding_window"}, true);
  const bool images = version >= kImagesWhole && find_wrapper(architecture_name(config)) != nullptr;
  const bool states = class_rules(config).whole_prompts.hold(version);
  const bool cached = version < kCachedInParts && args.prefix_caching.value_or(false);
  const bool latents = version >= kLatentsWhole && caches_latents(config);
  return !windows && !images && !states && !cached && !latents && !args.lora &&
         args.draft_method.empty();
}

int64_t least_tokens(const ConfigView& config, const EngineArgs& args) {
  constexpr VllmVersion kBegins{0, 6, 0}, kMore{0, 6, 3}, kPooling{0, 6, 4};
  if (args.version < kBegins || !runs_first_engine(args)) return 0;
  if (runner_of(config, args).pools && args.version >= kPooling) return 32768;
  if (find_wrapper(architecture_name(config)) == nullptr) return 0;
  return args.version < kMore ? 4096 : 5120;
}

EngineLimits resolve_limits(const EngineArgs& args, const hardware::Gpu* gpu, int64_t max_model_len,
                            int64_t least_tokens) {
  const BatchDefaults defaults = paced_defaults(args, gpu);
  EngineLimits limits;
  limits.utilization = args.gpu_memory_utilization;
  if (limits.utilization == 0)
    limits.utilization = args.version >= VllmVersion{0, 20, 0} ? 0.92 : 0.90;
  limits.max_num_seqs = args.max_num_seqs > 0 ? args.max_num_seqs : defaults.seqs;
  limits.max_num_batched_tokens = args.max_num_batched_tokens;
  const bool old = runs_first_engine(args);
  const bool chunked = args.chunked_prefill.value_or(!old);
  if (args.max_num_batched_tokens == 0) {
    int64_t tokens = defaults.tokens;
    if (old && chunked) tokens = args.version >= kLargerParts ? 2048 : 512;
    const bool exactly = !old && args.version < kWholeAtLeast;
    if (!chunked) tokens = exactly ? max_model_len : std::max(max_model_len, tokens);
    tokens = std::max(tokens, least_tokens);
    const Amount most = Amount{limits.max_num_seqs} * max_model_len;
    const bool capped = args.version >= (old ? kFirstTokensCapped : kTokensCapped);
    limits.max_num_batched_tokens = capped ? std::min(most, Amount{tokens}).value() : tokens;
  } else if (!old && !chunked && args.version < kHeedsTokens) {
    limits.max_num_batched_tokens = max_model_len;
  }
  if (args.max_num_seqs == 0 && args.version >= kSequencesCapped && !old) {
    limits.max_num_seqs = std::min(limits.max_num_seqs, limits.max_num_batched_tokens);
  }
  return limits;
}

}  // namespace plimsoll::vllm
