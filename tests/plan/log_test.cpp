// Figures of vLLM's logs, as they are printed, and how a plan compares with them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "plan/configs.h"
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

TEST_CASE("a boot that compiled a graph is cold, whatever it loaded besides") {
  const std::string loaded = "INFO Directly load the compiled graph(s) for compile range (1, 64)\n";
  const std::string compiled = "INFO Compiling a graph for compile range (64, 2048) takes 8.1 s\n";
  CHECK(read_vllm_log(loaded).warm == true);
  CHECK(read_vllm_log(compiled).warm == false);
  CHECK(read_vllm_log(loaded + compiled).warm == false);
  CHECK(read_vllm_log(compiled + loaded).warm == false);
  CHECK_FALSE(read_vllm_log("INFO nothing of it\n").warm);
}

TEST_CASE("lines of a log that hold no figure say nothing") {
  const VllmLog log = read_vllm_log(
      "GiB (actual)\n   GiB (actual)\nx GiB (actual)\nModel loading took long\n"
      "GPU KV cache size: , tokens\nModel loading took \n");
  CHECK_FALSE(log.graphs_taken);
  CHECK_FALSE(log.weights);
  CHECK_FALSE(log.tokens);
}

TEST_CASE("of several ranks' lines the first counts, of the cache's the least") {
  const VllmLog log = read_vllm_log(
      "Model loading took 7.5 GiB\nModel loading took 7.25 GiB\n"
      "Available KV cache memory: 30.5 GiB\nAvailable KV cache memory: 29.5 GiB\n"
      "Available KV cache memory: 31 GiB\n"
      "GPU KV cache size: 2,000 tokens\nGPU KV cache size: 1,000 tokens\n"
      "# GPU blocks: 300, # CPU blocks: 0\n# GPU blocks: 200, # CPU blocks: 0\n"
      "# GPU blocks: 250, # CPU blocks: 0\n"
      "Maximum concurrency for 100 tokens per request: 20.00x\n"
      "Maximum concurrency for 100 tokens per request: 10.00x\n");
  CHECK(log.weights == 7.5);
  CHECK(log.available == 29.5);
  CHECK(log.tokens == 1000);
  CHECK(log.blocks == 200);
  CHECK(log.concurrency == 10);
  CHECK(read_vllm_log("num_gpu_blocks is: 300\nnum_gpu_blocks is: 200\n").blocks == 200);
}

TEST_CASE("what is gone beside the weights is what is outside torch and what torch keeps") {
  const PlanResult plan = plan_of(llama_8b());
  REQUIRE(plan.persistent_bytes > 0);
  const auto beside = [&](const VllmLog& log, const char* name) {
    const LogCheck check = check_log(log, plan);
    const auto part = std::ranges::find(check.parts, name, &LoggedPart::part);
    REQUIRE(part != check.parts.end());
    return *part;
  };
  VllmLog log;
  log.weights = 15;
  log.non_torch = 0.25;
  const LoggedPart outside = beside(log, "non-torch");
  log.non_torch.reset();
  log.consumed = 16;
  const LoggedPart both = beside(log, "non-torch and kept");
  CHECK(both.logged == 1);
  const double kept = gib(plan.persistent_bytes);
  CHECK(both.low == Approx(outside.low + kept));
  CHECK(both.planned == Approx(outside.planned + kept));
  CHECK(both.high == Approx(outside.high + kept));
}

TEST_CASE("a log names the sampler and the engine that the plan did not take for granted") {
  const auto causes = [](const std::string& line, VllmVersion version) {
    EngineArgs args = at(version);
    args.max_model_len = 8192;
    const PlanResult plan = plan_of(llama_8b(), args, "4090");
    return check_log(read_vllm_log(line + "\nModel loading took 14.99 GiB memory\n"), plan).causes;
  };
  const std::string without = "WARNING FlashInfer is not available. Falling back to the PyTorch-";
  REQUIRE(causes(without, {0, 10, 2}).size() == 1);
  CHECK_THAT(causes(without, {0, 10, 2}).front(), Catch::Contains("--no-flashinfer-sampler"));
  CHECK(causes(without, {0, 11, 0}).empty());
  const std::string with = "INFO Using FlashInfer for top-p & top-k sampling.";
  CHECK(causes(with, {0, 10, 2}).empty());
  REQUIRE(causes(with, {0, 11, 0}).size() == 1);
  CHECK_THAT(causes(with, {0, 11, 0}).front(), Catch::EndsWith(": --flashinfer-sampler"));
  const std::string first = "INFO Initializing a V0 LLM engine with config: model='m'";
  REQUIRE(causes(first, {0, 9, 2}).size() == 1);
  CHECK_THAT(causes(first, {0, 9, 2}).front(), Catch::Contains("VLLM_USE_V1=0"));
  CHECK(causes("INFO Initializing a V1 LLM engine with config: model='m'", {0, 9, 2}).empty());
}
