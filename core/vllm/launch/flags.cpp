#include "vllm/launch/flags.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::vllm {
namespace {

using model::VllmVersion;

/// Releases that have a flag or a key, the last one excluded.
struct FlagReleases {
  std::string_view flag;
  VllmVersion first;
  VllmVersion last{1 << 20, 0, 0};  // none yet
  std::string_view last_text{};     // the last release that has it
};

/// From vllm/engine/arg_utils.py of the wheels of 0.4.0 to 0.33.0.
constexpr FlagReleases kFlags[] = {
    {"--allow-deprecated-quantization", {0, 14, 0}},
    {"--async-scheduling", {0, 10, 0}},
    {"--attention-backend", {0, 13, 0}},
    {"--compilation-config", {0, 6, 5}},
    {"--convert", {0, 10, 1}},
    {"--cuda-graph-sizes", {0, 9, 0}, {0, 13, 0}, "0.12.0"},
    {"--cudagraph-capture-sizes", {0, 11, 1}},
    {"--data-parallel-size", {0, 8, 3}},
    {"--decode-context-parallel-size", {0, 10, 2}},
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
    {"--override-pooler-config", {0, 6, 4}, {0, 12, 0}, "0.11.2"},
    {"--performance-mode", {0, 17, 0}},
    {"--pooler-config", {0, 11, 0}},
    {"--rope-scaling", {0, 4, 3}, {0, 11, 1}, "0.11.0"},
    {"--rope-theta", {0, 5, 0}, {0, 11, 1}, "0.11.0"},
    {"--runner", {0, 10, 0}},
    {"--skip-mm-profiling", {0, 10, 1}},
    {"--speculative-config", {0, 8, 2}},
    {"--swap-space", {0, 4, 0}, {0, 18, 0}, "0.17.1"},
    {"--task", {0, 6, 4}, {0, 13, 0}, "0.12.0"},
};

/// Fields of CompilationConfig that a launch may set (vllm/config/compilation.py, before 0.10.1
/// vllm/config.py, of the wheels of 0.6.5 to 0.33.0).
constexpr FlagReleases kCompilationKeys[] = {
    {"backend", {0, 6, 5}},
    {"cache_dir", {0, 6, 5}},
    {"candidate_compile_sizes", {0, 6, 5}, {0, 7, 0}, "0.6.6"},
    {"compile_cache_save_format", {0, 11, 1}},
    {"compile_mm_encoder", {0, 11, 1}},
    {"compile_ranges_endpoints", {0, 18, 0}},
    {"compile_ranges_split_points", {0, 13, 0}, {0, 18, 0}, "0.17.1"},
    {"compile_sizes", {0, 6, 5}},
    {"cudagraph_capture_sizes", {0, 6, 5}},
    {"cudagraph_copy_inputs", {0, 6, 5}},
    {"cudagraph_decoder_replay", {0, 32, 0}},
    {"cudagraph_mm_encoder", {0, 19, 0}},
    {"cudagraph_mode", {0, 10, 1}},
    {"cudagraph_num_of_warmups", {0, 6, 5}},
    {"cudagraph_specialize_lora", {0, 11, 1}},
    {"custom_ops", {0, 6, 5}},
    {"debug_dump_path", {0, 6, 5}},
    {"decoder_replay_cudagraph_capture_sizes", {0, 32, 0}},
    {"decoder_replay_trim_threshold", {0, 32, 0}},
    {"dynamic_shapes_config", {0, 12, 0}},
    {"encoder_cudagraph_max_frames_per_batch", {0, 20, 0}},
    {"encoder_cudagraph_max_images_per_batch", {0, 19, 0}, {0, 20, 0}, "0.19.1"},
    {"encoder_cudagraph_max_vision_items_per_batch", {0, 20, 0}},
    {"encoder_cudagraph_token_budgets", {0, 19, 0}},
    {"fast_moe_cold_start", {0, 16, 0}},
    {"full_cuda_graph", {0, 9, 0}, {0, 11, 1}, "0.11.0"},
    {"inductor_compile_config", {0, 6, 5}},
    {"inductor_hash_cache", {0, 6, 5}, {0, 7, 0}, "0.6.6"},
    {"inductor_passes", {0, 6, 5}},
    {"ir_enable_torch_wrap", {0, 20, 0}},
    {"level", {0, 6, 5}, {0, 18, 0}, "0.17.1"},
    {"max_cudagraph_capture_size", {0, 11, 1}},
    {"mode", {0, 11, 1}},
    {"pass_config", {0, 6, 5}},
    {"splitting_ops", {0, 6, 5}},
    {"use_cudagraph", {0, 6, 5}, {0, 11, 1}, "0.11.0"},
    {"use_inductor", {0, 6, 5}, {0, 12, 0}, "0.11.2"},
    {"use_inductor_graph_partition", {0, 11, 0}},
};

bool holds(const FlagReleases& known, const VllmVersion& version) {
  return version >= known.first && version < known.last;
}

/// "from 0.4.3 to 0.11.0"
std::string when(const FlagReleases& known) {
  const std::string first = model::version_text(known.first);
  if (known.last_text.empty()) return fmt::format("from {} on", first);
  return fmt::format("from {} to {}", first, known.last_text);
}

const FlagReleases* find_key(std::string_view key) {
  const auto* const found = std::ranges::find(kCompilationKeys, key, &FlagReleases::flag);
  return found == std::end(kCompilationKeys) ? nullptr : found;
}

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
  return known == nullptr || holds(*known, version);
}

std::string unrecognized_flag(std::string_view flag) {
  const FlagReleases* const known = find_flag(flag);
  if (known == nullptr) return "";
  return fmt::format("unrecognized arguments: {}; vLLM has it {}", flag, when(*known));
}

bool takes_compilation_key(std::string_view key, const VllmVersion& version) {
  const FlagReleases* const known = find_key(key);
  return known != nullptr && holds(*known, version);
}

std::string unknown_compilation_key(std::string_view key, const VllmVersion& version) {
  constexpr VllmVersion kForbidsOthers{0, 13, 0};  // ConfigDict(extra="forbid")
  const FlagReleases* const known = find_key(key);
  return fmt::format("vLLM {} {} the key {} of --compilation-config; {}",
                     model::version_text(version), version < kForbidsOthers ? "ignores" : "refuses",
                     key, known == nullptr ? "no release has it" : "vLLM has it " + when(*known));
}

}  // namespace plimsoll::vllm
