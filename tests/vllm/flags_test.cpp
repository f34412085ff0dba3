// The first and the last release that has a flag of vLLM, or a key of --compilation-config.
#include "vllm/launch/flags.h"

#include <catch2/catch.hpp>

#include "vllm_releases.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

struct Served {
  const char* name;
  const char* first;
  const char* last;  // "": the newest has it
};

// vllm/engine/arg_utils.py of the wheels.
constexpr Served kServedFlags[] = {
    {"--allow-deprecated-quantization", "0.14.0", ""},
    {"--async-scheduling", "0.10.0", ""},
    {"--attention-backend", "0.13.0", ""},
    {"--compilation-config", "0.6.5", ""},
    {"--convert", "0.10.1", ""},
    {"--cuda-graph-sizes", "0.9.0", "0.12.0"},
    {"--cudagraph-capture-sizes", "0.11.1", ""},
    {"--data-parallel-size", "0.8.3", ""},
    {"--decode-context-parallel-size", "0.10.2", ""},
    {"--disable-hybrid-kv-cache-manager", "0.9.1", ""},
    {"--disable-log-requests", "0.4.0", "0.16.0"},
    {"--enable-batch-sharded-sampling", "0.29.0", ""},
    {"--enable-expert-parallel", "0.8.0", ""},
    {"--enable-sleep-mode", "0.7.0", ""},
    {"--engram-config", "0.30.0", ""},
    {"--hf-overrides", "0.6.4", ""},
    {"--kv-cache-memory-bytes", "0.10.2", ""},
    {"--language-model-only", "0.17.0", ""},
    {"--mamba-block-size", "0.11.1", ""},
    {"--mamba-cache-mode", "0.15.0", ""},
    {"--mamba-ssm-cache-dtype", "0.10.1", ""},
    {"--max-cudagraph-capture-size", "0.11.1", ""},
    {"--mm-processor-cache-gb", "0.10.1", ""},
    {"--mm-processor-kwargs", "0.6.2", ""},
    {"--optimization-level", "0.12.0", ""},
    {"--override-pooler-config", "0.6.4", "0.11.2"},
    {"--performance-mode", "0.17.0", ""},
    {"--pooler-config", "0.11.0", ""},
    {"--rope-scaling", "0.4.3", "0.11.0"},
    {"--rope-theta", "0.5.0", "0.11.0"},
    {"--runner", "0.10.0", ""},
    {"--skip-mm-profiling", "0.10.1", ""},
    {"--speculative-config", "0.8.2", ""},
    {"--swap-space", "0.4.0", "0.17.1"},
    {"--task", "0.6.4", "0.12.0"},
};

// vllm/config/compilation.py of the wheels, before 0.10.1 vllm/config.py.
constexpr Served kServedKeys[] = {
    {"backend", "0.6.5", ""},
    {"cache_dir", "0.6.5", ""},
    {"candidate_compile_sizes", "0.6.5", "0.6.6"},
    {"compile_cache_save_format", "0.11.1", ""},
    {"compile_mm_encoder", "0.11.1", ""},
    {"compile_ranges_endpoints", "0.18.0", ""},
    {"compile_ranges_split_points", "0.13.0", "0.17.1"},
    {"compile_sizes", "0.6.5", ""},
    {"cudagraph_capture_sizes", "0.6.5", ""},
    {"cudagraph_copy_inputs", "0.6.5", ""},
    {"cudagraph_decoder_replay", "0.32.0", ""},
    {"cudagraph_mm_encoder", "0.19.0", ""},
    {"cudagraph_mode", "0.10.1", ""},
    {"cudagraph_num_of_warmups", "0.6.5", ""},
    {"cudagraph_specialize_lora", "0.11.1", ""},
    {"custom_ops", "0.6.5", ""},
    {"debug_dump_path", "0.6.5", ""},
    {"decoder_replay_cudagraph_capture_sizes", "0.32.0", ""},
    {"decoder_replay_trim_threshold", "0.32.0", ""},
    {"dynamic_shapes_config", "0.12.0", ""},
    {"encoder_cudagraph_max_frames_per_batch", "0.20.0", ""},
    {"encoder_cudagraph_max_images_per_batch", "0.19.0", "0.19.1"},
    {"encoder_cudagraph_max_vision_items_per_batch", "0.20.0", ""},
    {"encoder_cudagraph_token_budgets", "0.19.0", ""},
    {"fast_moe_cold_start", "0.16.0", ""},
    {"full_cuda_graph", "0.9.0", "0.11.0"},
    {"inductor_compile_config", "0.6.5", ""},
    {"inductor_hash_cache", "0.6.5", "0.6.6"},
    {"inductor_passes", "0.6.5", ""},
    {"ir_enable_torch_wrap", "0.20.0", ""},
    {"level", "0.6.5", "0.17.1"},
    {"max_cudagraph_capture_size", "0.11.1", ""},
    {"mode", "0.11.1", ""},
    {"pass_config", "0.6.5", ""},
    {"splitting_ops", "0.6.5", ""},
    {"use_cudagraph", "0.6.5", "0.11.0"},
    {"use_inductor", "0.6.5", "0.11.2"},
    {"use_inductor_graph_partition", "0.11.0", ""},
};

bool is_served(const Served& row, const model::VllmVersion& version) {
  return version >= model::parse_version(row.first) &&
         (*row.last == '\0' || version <= model::parse_version(row.last));
}

}  // namespace

TEST_CASE("a flag and a key are taken from their first release to their last") {
  CHECK(!takes_flag("--kv-cache-memory-bytes", {0, 10, 1}));
  CHECK(takes_flag("--kv-cache-memory-bytes", {0, 10, 2}));
  CHECK(takes_flag("--swap-space", {0, 17, 1}));
  CHECK(!takes_flag("--swap-space", {0, 18, 0}));
  CHECK(!takes_compilation_key("full_cuda_graph", {0, 8, 5}));
  CHECK(takes_compilation_key("full_cuda_graph", {0, 9, 0}));
  CHECK(takes_compilation_key("full_cuda_graph", {0, 11, 0}));
  CHECK(!takes_compilation_key("full_cuda_graph", {0, 11, 1}));
  CHECK(takes_compilation_key("level", {0, 17, 1}));
  CHECK(!takes_compilation_key("level", {0, 18, 0}));
}

TEST_CASE("each release has the flags and keys of its wheel") {
  for (const model::VllmVersion& version : testing::known_releases()) {
    const std::string release = model::version_text(version);
    for (const Served& flag : kServedFlags) {
      INFO(release << " " << flag.name);
      CHECK(takes_flag(flag.name, version) == is_served(flag, version));
    }
    for (const Served& key : kServedKeys) {
      INFO(release << " " << key.name);
      CHECK(takes_compilation_key(key.name, version) == is_served(key, version));
    }
  }
}

TEST_CASE("what a release lacks is told with those that have it") {
  CHECK(unrecognized_flag("--rope-theta") ==
        "unrecognized arguments: --rope-theta; vLLM has it from 0.5.0 to 0.11.0");
  CHECK(unrecognized_flag("--async-scheduling") ==
        "unrecognized arguments: --async-scheduling; vLLM has it from 0.10.0 on");
  CHECK(unrecognized_flag("--model").empty());
  CHECK(unknown_compilation_key("level", {0, 18, 0}) ==
        "vLLM 0.18.0 refuses the key level of --compilation-config; vLLM has it from 0.6.5 to "
        "0.17.1");
  CHECK(unknown_compilation_key("mode", {0, 10, 0}) ==
        "vLLM 0.10.0 ignores the key mode of --compilation-config; vLLM has it from 0.11.1 on");
  CHECK(unknown_compilation_key("x", {0, 13, 0}) ==
        "vLLM 0.13.0 refuses the key x of --compilation-config; no release has it");
  CHECK(unknown_compilation_key("x", {0, 12, 9}) ==
        "vLLM 0.12.9 ignores the key x of --compilation-config; no release has it");
}
