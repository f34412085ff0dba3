// Figures of vLLM's logs, as they are printed.
#include <catch2/catch.hpp>
#include <string>

#include "plan/log/vllm_log.h"

using namespace plimsoll::plan;

TEST_CASE("figures of a log are read as they are printed") {
  const VllmLog log = read_vllm_log(
      "INFO [gpu_model_runner.py:5025] Model loading took 4.9877 GiB memory and 2.1 seconds\n"
      "INFO GPU KV cache size: 1,234,567 tokens\n"
      "INFO # GPU blocks: 12,345, # CPU blocks: 0\n"
      "INFO Estimated CUDA graph memory: -0.25 GiB total\n"
      "INFO CUDA graph pool memory: 0.91   GiB (actual), 0.88 GiB (estimated)\n"
      "INFO Free memory on device cuda:0 (78.68/79.19 GiB) on startup.\n"
      "INFO Maximum concurrency for 8,192 tokens per request: 150.70x\n");
  CHECK(log.weights == 4.9877);
  CHECK(log.tokens == 1234567);
  CHECK(log.blocks == 12345);
  CHECK(log.graphs_estimated == -0.25);
  CHECK(log.graphs_taken == 0.91);
  CHECK(log.free_at_start == 78.68);
  CHECK(log.total == 79.19);
  CHECK(log.concurrency == 150.70);
}

TEST_CASE("the first engine's blocks are read under each of their names") {
  for (const char* name : {"GPU", "CUDA", "cuda"}) {
    const std::string text = std::string("INFO # ") + name + " blocks: 2048, # CPU blocks: 77\n";
    CHECK(is_vllm_log(text));
    CHECK(read_vllm_log(text).blocks == 2048);
  }
}

TEST_CASE("lines of a log that hold no figure say nothing") {
  const VllmLog log = read_vllm_log(
      "GiB (actual)\n   GiB (actual)\nx GiB (actual)\nModel loading took long\n"
      "GPU KV cache size: , tokens\nModel loading took \n");
  CHECK_FALSE(log.graphs_taken);
  CHECK_FALSE(log.weights);
  CHECK_FALSE(log.tokens);
}
