// What vLLM checks of a KV cache beside its size: the kernel that reads it, a stated number of
// blocks.
#include <catch2/catch.hpp>

#include "plan/configs.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

TEST_CASE("a cache of 8 bits needs a kernel that reads it on the card") {
  EngineArgs args = at({0, 33, 0});
  args.kv_cache_dtype = "fp8";
  const auto refused = [&](const Json& config, const char* gpu) {
    return refusal_of(config, args, gpu);
  };
  CHECK_THAT(refused(llama_8b(), "t4"),
             Catch::Contains("FP8 KV cache is not supported by the Triton attention backend") &&
                 Catch::Contains("compute capability 7.5") &&
                 Catch::Contains("--kv-cache-dtype float16"));
  CHECK(refused(llama_8b(), "a100").empty());  // FlashInfer's
  CHECK_THAT(refused(gpt_oss(24, 32), "a100"), Catch::Contains("--kv-cache-dtype bfloat16"));
  Json odd = llama_8b();
  odd["head_dim"] = 96;
  CHECK_THAT(refused(odd, "3090"), Catch::Contains("compute capability 8.6"));
  for (const char* newer : {"l40s", "h100", "b200", "5090"}) {
    INFO(newer);
    CHECK(refused(gpt_oss(24, 32), newer).empty());
  }
  args.version = {0, 23, 0};
  CHECK(refused(llama_8b(), "t4").empty());
}

TEST_CASE("a stated number of blocks is checked as the release does") {
  EngineArgs args = at({0, 20, 0});
  args.max_model_len = 8192;
  args.blocks_override = 100;  // 1600 tokens
  const PlanResult before = plan_of(llama_8b(), args, "h100");
  CHECK(before.fits.value());
  CHECK(before.num_gpu_blocks == 100);
  CHECK(before.max_concurrency == Approx(100.0 / 512));
  args.version = {0, 21, 0};
  CHECK_FALSE(plan_of(llama_8b(), args, "h100").fits.value());
  args.version = {0, 20, 0};
  args.blocks_override = 8192;
  CHECK_THAT(plan_of(llama_8b(), args, "4090").reason, Catch::Contains("CUDA out of memory"));
}

TEST_CASE(
    "a recurrent layer's block of its own needs a cache of prefixes, or is the whole context") {
  const auto refusal = [](int64_t block, bool caching) {
    EngineArgs args;
    args.max_model_len = 4096;
    args.state_block_size = block;
    args.prefix_caching = caching;
    return refusal_of(llama_8b(), args);
  };
  CHECK_THAT(refusal(4095, false), Catch::StartsWith("--mamba-block-size can only be set"));
  CHECK(refusal(4095, true).empty());
  CHECK(refusal(4096, false).empty());
  CHECK(refusal(0, false).empty());
}
