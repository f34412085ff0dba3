// The first and the last release that has a flag of vLLM, or a key of --compilation-config.
#include "vllm/launch/flags.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "digests.h"
#include "vllm_releases.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

constexpr const char* kFlags[] = {"--allow-deprecated-quantization",
                                  "--async-scheduling",
                                  "--attention-backend",
                                  "--compilation-config",
                                  "--cuda-graph-sizes",
                                  "--cudagraph-capture-sizes",
                                  "--data-parallel-size",
                                  "--disable-hybrid-kv-cache-manager",
                                  "--disable-log-requests",
                                  "--enable-batch-sharded-sampling",
                                  "--enable-expert-parallel",
                                  "--enable-sleep-mode",
                                  "--engram-config",
                                  "--hf-overrides",
                                  "--kv-cache-memory-bytes",
                                  "--language-model-only",
                                  "--mamba-block-size",
                                  "--mamba-cache-mode",
                                  "--mamba-ssm-cache-dtype",
                                  "--max-cudagraph-capture-size",
                                  "--mm-processor-cache-gb",
                                  "--mm-processor-kwargs",
                                  "--optimization-level",
                                  "--performance-mode",
                                  "--rope-scaling",
                                  "--rope-theta",
                                  "--skip-mm-profiling",
                                  "--speculative-config",
                                  "--swap-space"};
constexpr const char* kKeys[] = {"backend",
                                 "cache_dir",
                                 "candidate_compile_sizes",
                                 "compile_cache_save_format",
                                 "compile_mm_encoder",
                                 "compile_ranges_endpoints",
                                 "compile_ranges_split_points",
                                 "compile_sizes",
                                 "cudagraph_capture_sizes",
                                 "cudagraph_copy_inputs",
                                 "cudagraph_decoder_replay",
                                 "cudagraph_mm_encoder",
                                 "cudagraph_mode",
                                 "cudagraph_num_of_warmups",
                                 "cudagraph_specialize_lora",
                                 "custom_ops",
                                 "debug_dump_path",
                                 "decoder_replay_cudagraph_capture_sizes",
                                 "decoder_replay_trim_threshold",
                                 "dynamic_shapes_config",
                                 "encoder_cudagraph_max_frames_per_batch",
                                 "encoder_cudagraph_max_images_per_batch",
                                 "encoder_cudagraph_max_vision_items_per_batch",
                                 "encoder_cudagraph_token_budgets",
                                 "fast_moe_cold_start",
                                 "full_cuda_graph",
                                 "inductor_compile_config",
                                 "inductor_hash_cache",
                                 "inductor_passes",
                                 "ir_enable_torch_wrap",
                                 "level",
                                 "max_cudagraph_capture_size",
                                 "mode",
                                 "pass_config",
                                 "splitting_ops",
                                 "use_cudagraph",
                                 "use_inductor",
                                 "use_inductor_graph_partition"};

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

TEST_CASE("each release of vLLM has the flags and keys that it had") {
  testing::Digests digests("flags");
  const auto compare = [&](const char* name, const auto& taken, const auto& told) {
    std::vector<testing::Answered> all;
    for (const char* release : testing::kReleases) {
      const model::VllmVersion version = model::parse_version(release);
      all.push_back({release, taken(name, version) ? "takes it" : told(name, version)});
    }
    digests.compare(name, all);
  };
  for (const char* flag : kFlags) {
    compare(flag, takes_flag,
            [](const char* name, const auto&) { return unrecognized_flag(name); });
  }
  for (const char* key : kKeys) {
    compare(key, takes_compilation_key, unknown_compilation_key);
  }
}
