// Figures of a log beside those of a plan that is made up by hand: bounds, causes, the table.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "plan/configs.h"
#include "plan/log/vllm_log.h"

using namespace plimsoll::plan;

namespace {

constexpr int64_t bytes(double gib) {
  return static_cast<int64_t>(gib * 0x1p30);
}

PlanPart logged_part(const char* name, double size, double less, double more, bool inside = true) {
  return {.name = name,
          .bytes = bytes(size),
          .formula = "",
          .source = "",
          .inside_budget = inside,
          .less = bytes(less),
          .more = bytes(more)};
}

CacheFigures cache(double size, int64_t blocks, double requests) {
  return {.kv_cache_bytes = bytes(size),
          .num_gpu_blocks = blocks,
          .kv_tokens = 16 * blocks,
          .max_concurrency = requests,
          .longest = 0,
          .fits = true,
          .reason = ""};
}

/// Two cards of 80 GiB with 15 GiB of weights and 40 GiB of cache, on the first boot 32.
PlanResult made_up_plan() {
  PlanResult plan;
  plan.engine = "vllm";
  plan.version = "0.24.0";
  plan.model = "org/m";
  plan.gpu = "H100";
  plan.gpus = 2;
  plan.fits = true;
  plan.gpu_memory_utilization = 0.9;
  plan.total_bytes = bytes(80);
  plan.persistent_bytes = bytes(0.25);
  plan.max_model_len = 8192;
  plan.max_num_seqs = 256;
  plan.max_num_batched_tokens = 2048;
  plan.parts = {logged_part("weights: layers", 10, 0, 0),
                logged_part("weights: embedding", 5, 0, 0),
                logged_part("activation: step", 2, 0.25, 1), logged_part("non-torch", 1, 0.25, 0.5),
                logged_part("cuda graphs", 0.5, 0.125, 0.25)};
  plan.bounds = {cache(30, 15000, 30), cache(40, 20000, 40), cache(44, 22000, 44)};
  plan.cold = ColdBoot{.activation_peak_bytes = bytes(3),
                       .cache = cache(32, 16000, 32),
                       .kv_cache = {bytes(28), bytes(32), bytes(35)}};
  return plan;
}

std::vector<LoggedPart> parts_of(const VllmLog& log, const PlanResult& plan = made_up_plan()) {
  return check_log(log, plan).parts;
}

void check_part(const std::vector<LoggedPart>& parts, const char* name, const char* unit,
                double planned, double low, double high) {
  INFO(name << " in " << unit);
  const auto found = std::ranges::find_if(
      parts, [&](const LoggedPart& one) { return one.part == name && one.unit == unit; });
  REQUIRE(found != parts.end());
  CHECK(found->planned == Approx(planned));
  CHECK(found->low == Approx(low));
  CHECK(found->high == Approx(high));
}

}  // namespace

TEST_CASE("each release's words for a figure are read") {
  const VllmLog old = read_vllm_log(
      "the current vLLM instance can use total_gpu_memory (23.69GiB) x gpu_memory_utilization "
      "(0.95) = 22.51GiB\n"
      "model weights take 14.99GiB; non_torch_memory takes 0.06GiB; PyTorch activation peak memory "
      "takes 1.26GiB; the rest of the memory reserved for KV Cache is 6.20GiB.");
  CHECK(old.total == 23.69);
  CHECK(old.utilization == 0.95);
  CHECK(old.weights == 14.99);
  CHECK(old.non_torch == 0.06);
  CHECK(old.activation == 1.26);
  CHECK(old.available == 6.2);
  CHECK_FALSE(old.free_at_start);
  const VllmLog start = read_vllm_log(
      "Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory utilization is "
      "(0.95, 75.23 GiB). Actual usage is 15.0 GiB for weight, 1.25 GiB for peak activation, 0.5 "
      "GiB for non-torch memory, and 0.07 GiB for CUDAGraph memory.");
  CHECK(start.free_at_start == 78.68);
  CHECK(start.total == 79.19);
  CHECK(start.utilization == 0.95);
  CHECK(start.weights == 15.0);
  CHECK(start.activation == 1.25);
  CHECK(start.non_torch == 0.5);
  CHECK_FALSE(start.consumed);
  CHECK(read_vllm_log("Loading model weights took 12.5 GB\n").weights == 12.5);
  CHECK(read_vllm_log("Graph capturing finished in 22 secs, took 0.54 GiB\n").graphs_taken == 0.54);
  CHECK_FALSE(read_vllm_log("The compilation took 7 seconds\n").graphs_taken);
  CHECK(read_vllm_log("model weights take 1.5GiB\nmodel weights take 1.25GiB").weights == 1.5);
}

TEST_CASE("the release of a log is the first of three numbers") {
  const auto version = [](const char* text) { return read_vllm_log(text).version; };
  CHECK(version("Initializing an LLM engine (v0.6.3.post1) with config: model='m'") == "0.6.3");
  CHECK(version("vLLM API server version 0.9.2rc1\n") == "0.9.2");
  CHECK(version("INFO [utils.py:299]  version 0.28.0\nvLLM API server version 0.9.2") == "0.28.0");
  CHECK(version("CUDA version 12.8\nLLM engine (v0.8.5.") == "0.8.5");
  CHECK(version("CUDA version 12.8\n").empty());
}

TEST_CASE("lines about compiled graphs, the sampler and the engine decide what the log is of") {
  CHECK(read_vllm_log("Cache the graph of shape None for later use\n").warm == false);
  for (const char* words : {"FlashInfer is not available. Falling back to the PyTorch-native",
                            "FlashInfer is available, but it is not enabled. Falling back to",
                            "FlashInfer 0.2.3 is required. Falling back to default sampling",
                            "FlashInfer top-p/top-k sampling sampler is disabled because"}) {
    INFO(words);
    CHECK(read_vllm_log(words).flashinfer == false);
  }
  CHECK(read_vllm_log("Using FlashInfer for top-p & top-k sampling.").flashinfer == true);
  CHECK_FALSE(read_vllm_log("Using FLASHINFER attention backend").flashinfer);
  CHECK(read_vllm_log("Compute Capability < 8.0. Falling back to V0.").first_engine == true);
  CHECK(read_vllm_log("Initializing a V0 LLM engine (v0.9.2)").first_engine == true);
  CHECK(read_vllm_log("Initializing a V1 LLM engine (v0.9.2)").first_engine == false);
  for (const char* line :
       {"Available KV cache memory: 1", "GPU KV cache size: 1", "# GPU blocks: 1",
        "# CUDA blocks: 1", "# cuda blocks: 1", "Model loading took 1", "model weights take 1"})
    CHECK(is_vllm_log(std::string("INFO x\nINFO ") + line));
  CHECK_FALSE(is_vllm_log("# CPU blocks: 1\nModel loading failed"));
}

TEST_CASE("a figure is inside up to the rounding of logs") {
  for (const auto& [unit, in, out] :
       {std::tuple{"GiB", 0.005, 0.007}, std::tuple{"requests", 0.005, 0.007},
        std::tuple{"blocks", 0.4, 0.6}, std::tuple{"tokens", 0.4, 0.6}}) {
    INFO(unit);
    const auto inside = [&](double logged) {
      return LoggedPart{"x", unit, logged, 10, 9, 12}.is_inside();
    };
    CHECK(inside(12 + in));
    CHECK_FALSE(inside(12 + out));
    CHECK(inside(9 - in));
    CHECK_FALSE(inside(9 - out));
  }
}

TEST_CASE("parts of a plan are summed by their names, with the spread of each") {
  VllmLog log;
  log.weights = 15, log.activation = 2, log.non_torch = 1, log.graphs_estimated = 0.5;
  const std::vector<LoggedPart> parts = parts_of(log);
  REQUIRE(parts.size() == 4);
  check_part(parts, "weights", "GiB", 15, 15 * 0.997, 15 * 1.006);
  check_part(parts, "peak activation", "GiB", 2, 1.75, 3);
  check_part(parts, "non-torch", "GiB", 1, 0.75, 1.5);
  check_part(parts, "CUDA graphs", "GiB", 0.5, 0.375, 0.75);
  PlanResult quantized = made_up_plan();
  quantized.quantized = true;
  check_part(parts_of(log, quantized), "weights", "GiB", 15, 15 * 0.997, 15 * 1.02);
  // From 0.27 on the peak has the graphs' estimate in it, if the budget has.
  log.consumed = 16;
  check_part(parts_of(log), "peak activation", "GiB", 2.5, 1.75 + 0.375, 3 + 0.75);
  PlanResult beside = made_up_plan();
  beside.parts.back().inside_budget = false;
  check_part(parts_of(log, beside), "peak activation", "GiB", 2, 1.75, 3);
  check_part(parts_of(log, beside), "CUDA graphs", "GiB", 0.5, 0.375, 0.75);
}

TEST_CASE("a cold boot is compared with the first boot's figures, an unknown one with both") {
  VllmLog log;
  log.activation = 2, log.available = 31, log.blocks = 15000, log.tokens = 240000;
  log.concurrency = 30;
  std::vector<LoggedPart> parts = parts_of(log);
  check_part(parts, "peak activation", "GiB", 2, 1.75, 3);
  check_part(parts, "KV cache", "GiB", 40, 28, 44);
  check_part(parts, "KV cache", "blocks", 20000, 14000, 22000);
  check_part(parts, "KV cache", "tokens", 320000, 224000, 352000);
  check_part(parts, "KV cache", "requests", 40, 28, 44);
  log.warm = true;
  parts = parts_of(log);
  check_part(parts, "KV cache", "GiB", 40, 30, 44);
  check_part(parts, "KV cache", "tokens", 320000, 240000, 352000);
  log.warm = false;
  parts = parts_of(log);
  check_part(parts, "peak activation", "GiB", 3, 3, 3.2);
  check_part(parts, "KV cache", "GiB", 32, 28, 35);
  check_part(parts, "KV cache", "blocks", 16000, 14000, 17500);
  check_part(parts, "KV cache", "tokens", 256000, 224000, 280000);
  check_part(parts, "KV cache", "requests", 32, 28, 35);
  PlanResult exact = made_up_plan();
  exact.bounds.reset();
  CHECK(parts_of(log, exact).size() == 1);  // the activation
}

TEST_CASE("a cause is said where its figure differs by more than logs round") {
  const auto causes = [](const VllmLog& log, const PlanResult& plan = made_up_plan()) {
    return check_log(log, plan).causes;
  };
  VllmLog log;
  log.version = "0.24.0", log.utilization = 0.9004, log.total = 80.09, log.free_at_start = 77.6;
  log.first_engine = false;
  CHECK(causes(log).empty());
  log.version = "0.23.0", log.utilization = 0.9006, log.total = 80.11, log.free_at_start = 77.6;
  log.first_engine = true;
  const std::vector<std::string> all = {
      "the log is of vLLM 0.23.0, the plan of 0.24.0: --vllm-version 0.23.0",
      "the log is of the V0 engine, the plan of the other: VLLM_USE_V1=0",
      "the log has a utilization of 0.9006, the plan of 0.9: --gpu-memory-utilization 0.9006",
      "the card of the log has 80.11 GiB, the plan's 80.00: --gpu or --gpu-total-memory",
      "2.51 GiB of the card were held before the launch: another process, or the host's own where "
      "memory is shared (--reserved-memory)"};
  CHECK(causes(log) == all);
  VllmLog less;
  less.utilization = 0.8994, less.total = 79.89;
  CHECK(causes(less).size() == 2);
  PlanResult first = made_up_plan();
  first.first_engine = true;
  VllmLog second;
  second.first_engine = false;
  CHECK(causes(second, first) ==
        std::vector<std::string>{
            "the log is of the V1 engine, the plan of the other: VLLM_USE_V1=1"});
}

TEST_CASE("a cache below the warm boot's bounds was a cold boot, if the log does not say which") {
  const auto causes = [](double available, std::optional<bool> warm) {
    VllmLog log;
    log.available = available, log.warm = warm;
    return check_log(log, made_up_plan()).causes;
  };
  const std::vector<std::string> guessed = {
      "less cache than a warm boot has: the compile cache was empty (a cold boot)"};
  CHECK(causes(29.9, {}) == guessed);
  CHECK(causes(30.1, {}).empty());
  CHECK(causes(29.9, true).empty());
  CHECK(causes(29.9, false) ==
        std::vector<std::string>{"the log shows a cold boot: graphs were compiled in it"});
}

TEST_CASE("memory outside torch is judged by its edges, and by the number of cards") {
  const auto causes = [](double non_torch, int64_t gpus) {
    PlanResult plan = made_up_plan();
    plan.gpus = gpus;
    VllmLog log;
    log.non_torch = non_torch;
    std::vector<std::string> said = check_log(log, plan).causes;
    return said.empty() ? "" : said.front();
  };
  CHECK_THAT(causes(0.7, 2), Catch::EndsWith("--interconnect pcie"));
  CHECK(causes(0.7, 1).empty());
  CHECK(causes(0.8, 2).empty());
  CHECK(causes(1.45, 2).empty());
  for (const int64_t gpus : {1, 2})
    CHECK_THAT(causes(1.55, gpus), Catch::StartsWith("more outside torch"));
}

TEST_CASE("the table has a row for each part and a row for reports") {
  VllmLog log;
  log.version = "0.24.1", log.warm = true, log.utilization = 0.9;
  log.weights = 20.25, log.activation = 2.5, log.consumed = 21.5, log.graphs_estimated = 0.625;
  log.available = 39.5, log.tokens = 316000, log.concurrency = 38.57;
  PlanResult plan = made_up_plan();
  plan.quantized = true;
  plan.parts.front() = logged_part("weights: layers", 15, 0, 0);
  const std::vector<std::string> lines = log_table(check_log(log, plan), log, plan);
  REQUIRE(lines.size() == 12);
  CHECK(lines[0] == "part                      logged     planned                    bounds");
  CHECK(lines[1] == "weights                    20.25       20.00        19.94 to 20.40 GiB");
  CHECK(lines[2] == "peak activation             2.50        2.50          2.12 to 3.75 GiB");
  CHECK(lines[3] == "non-torch and kept          1.25        1.25          1.00 to 1.75 GiB");
  CHECK(lines[4] == "CUDA graphs                 0.62        0.50          0.38 to 0.75 GiB");
  CHECK(lines[5] == "KV cache                   39.50       40.00        30.00 to 44.00 GiB");
  CHECK(lines[6] == "KV cache                  316000      320000   240000 to 352000 tokens");
  CHECK(lines[7] == "KV cache                   38.57       40.00   30.00 to 44.00 requests");
  CHECK(lines[8] == "  the log is of vLLM 0.24.1, the plan of 0.24.0: --vllm-version 0.24.1");
  CHECK(lines[9] == "  inside the bounds");
  CHECK(lines[11] ==
        "0.24.1,\"org/m\",\"H100\",2,0.9,8192,256,2048,20.25,2.5,21.5,0.625,39.5,316000,warm");
  log.version = "", log.warm = false, log.non_torch = 1.5, log.blocks = 15500, log.weights = 21;
  const std::vector<std::string> more = log_table(check_log(log, plan), log, plan);
  CHECK_THAT(more[1], Catch::EndsWith(" GiB  outside"));
  CHECK(more[more.size() - 3] == "  outside the bounds");
  CHECK(more.back() ==
        "0.24.0,\"org/m\",\"H100\",2,0.9,8192,256,2048,21,2.5,1.5,0.625,39.5,15500,cold");
  CHECK(std::ranges::count(more.back(), ',') == std::ranges::count(more[more.size() - 2], ','));
}
