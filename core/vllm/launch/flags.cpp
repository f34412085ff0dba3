#include "vllm/launch/flags.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::vllm {
namespace {

using model::VllmVersion;

/// Releases that have a flag, the last one excluded. From vllm/engine/arg_utils.py of the wheels of
/// 0.4.0 to 0.33.0.
struct FlagReleases {
  std::string_view flag;
  VllmVersion first;
  VllmVersion last{1 << 20, 0, 0};  // none yet
  std::string_view last_text{};     // the last release that has it
};
constexpr FlagReleases kFlags[] = {
    {"--allow-deprecated-quantization", {0, 14, 0}},
    {"--async-scheduling", {0, 10, 0}},
    {"--attention-backend", {0, 13, 0}},
    {"--compilation-config", {0, 6, 5}},
    {"--cuda-graph-sizes", {0, 9, 0}, {0, 13, 0}, "0.12.0"},
    {"--cudagraph-capture-sizes", {0, 11, 1}},
    {"--data-parallel-size", {0, 8, 3}},
    {"--disable-hybrid-kv-cache-manager", {0, 9, 1}},
    {"--disable-log-requests", {0, 4, 0}, {0, 17, 0}, "0.16.0"},
    {"--enable-batch-sharded-sampling", {0, 29, 0}},
    {"--enable-expert-parallel", {0, 8, 0}},
    {"--enable-sleep-mode", {0, 7, 0}},
    {"--engram-config", {0, 30, 0}},
    {"--hf-overrides", {0, 6, 4}},
    {"--kv-cache-memory-bytes", {0, 10, 2}},
    {"--language-model-only", {0, 17, 0}},
    {"--mamba-block-size", {0, 11, 1}},
    {"--mamba-cache-mode", {0, 15, 0}},
    {"--mamba-ssm-cache-dtype", {0, 10, 1}},
    {"--max-cudagraph-capture-size", {0, 11, 1}},
    {"--mm-processor-cache-gb", {0, 10, 1}},
    {"--mm-processor-kwargs", {0, 6, 2}},
    {"--optimization-level", {0, 12, 0}},
    {"--performance-mode", {0, 17, 0}},
    {"--rope-scaling", {0, 4, 3}, {0, 11, 1}, "0.11.0"},
    {"--rope-theta", {0, 5, 0}, {0, 11, 1}, "0.11.0"},
    {"--skip-mm-profiling", {0, 10, 1}},
    {"--speculative-config", {0, 8, 2}},
    {"--swap-space", {0, 4, 0}, {0, 18, 0}, "0.17.1"},
};

const FlagReleases* find_flag(std::string_view flag) {
  if (flag.starts_with("--no-")) flag = flag.substr(5);
  while (flag.starts_with('-')) flag.remove_prefix(1);
  const auto* const found = std::ranges::find_if(
      kFlags, [&](const FlagReleases& known) { return known.flag.substr(2) == flag; });
  return found == std::end(kFlags) ? nullptr : found;
}

}  // namespace

bool takes_flag(std::string_view flag, const VllmVersion& version) {
  const FlagReleases* const known = find_flag(flag);
  return known == nullptr || (version >= known->first && version < known->last);
}

std::string unrecognized_flag(std::string_view flag) {
  const FlagReleases* const known = find_flag(flag);
  if (known == nullptr) return "";
  const std::string when =
      known->last_text.empty()
          ? "from " + model::version_text(known->first) + " on"
          : fmt::format("from {} to {}", model::version_text(known->first), known->last_text);
  return fmt::format("unrecognized arguments: {}; vLLM has it {}", flag, when);
}

}  // namespace plimsoll::vllm
