// Bounds to the byte and to the rank: what a card shows, the budget, windows, what solvers try, in
// which order advice stands.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/amount.h"
#include "base/error.h"
#include "plan/configs.h"
#include "plan/solver.h"
#include "plan/vllm_plan.h"
#include "vllm/launch/activation.h"
#include "vllm/launch/machine.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

/// An engine whose launches fit where `fits` returns true, and the arguments that it was asked
/// with.
struct Probe {
  std::function<bool(const EngineArgs&, const hardware::Gpu*)> fits;
  std::vector<EngineArgs> asked;

  PlanFunction plan() {
    return [this](const EngineArgs& args, const hardware::Gpu* gpu) {
      asked.push_back(args);
      PlanResult result;
      result.fits = fits(args, gpu);
      result.max_concurrency = *result.fits ? 1e9 : 0;
      result.max_num_seqs = args.max_num_seqs;
      result.gpus = args.tensor_parallel;
      return result;
    };
  }
};

}  // namespace

TEST_CASE("a card shows less than its whole memory, by its class") {
  struct Row {
    const char* card;
    int64_t kept_mib;
  };
  const Row rows[] = {
      {"h100", 469},       {"l20", 469},        {"a100-40gb", 522},
      {"h20", 469},        {"gh200", 1103},     {"b200", 469},
      {"rtx5000ada", 469}, {"t4", 448},         {"rtx8000", 448},
      {"2080ti", 448},     {"4090", 484},       {"3090", 355},
      {"a10", 438},        {"rtxpro6000", 635}, {"rtxpro6000-server", 635},
      {"rtxpro5000", 470}, {"5090", 473},       {"5060ti", 470},
  };
  for (const Row& row : rows) {
    INFO(row.card);
    const hardware::Gpu& gpu = hardware::find_gpu(row.card);
    CHECK(gpu.memory_bytes - gpu.visible_bytes() == row.kept_mib * kMiB);
  }
}

TEST_CASE("the budget is the share of the card, a part of a byte counting whole") {
  struct Row {
    const char* card;
    double share;
    int64_t budget;
  };
  const Row rows[] = {
      {"h100", 0.92, 78226705613},  // of 85029027840 bytes
      {"h100", 0.5, 42514513920},
      {"4090", 0.9, 22724739072},  // of 25249710080 bytes
      {"t4", 0.87, 13603637822},   // of 15636365312 bytes
  };
  for (const Row& row : rows) {
    INFO(row.card << " " << row.share);
    EngineArgs args;
    args.gpu_memory_utilization = row.share;
    args.dtype = "float16";
    CHECK(plan_of(llama_8b(), args, row.card).budget_bytes == row.budget);
  }
}

TEST_CASE("memory that other processes hold is not there for the launch") {
  EngineArgs args;
  const PlanResult alone = plan_of(llama_8b(), args);
  REQUIRE(alone.fits.value());
  const int64_t free = alone.total_bytes - context_bytes(args, &hardware::find_gpu("h100"));
  args.reserved = free - alone.budget_bytes;
  CHECK(plan_of(llama_8b(), args).fits.value());
  ++args.reserved;
  const PlanResult refused = plan_of(llama_8b(), args);
  CHECK_FALSE(refused.fits.value());
  CHECK_THAT(refused.reason, Catch::StartsWith("Free memory on device"));

  // Before 0.9.1 it counted as the launch's own.
  args.version = {0, 9, 0};
  EngineArgs without = args;
  without.reserved = 0;
  const int64_t more =
      plan_of(llama_8b(), args).non_torch_bytes - plan_of(llama_8b(), without).non_torch_bytes;
  CHECK(more == args.reserved);
}

TEST_CASE("a cache that is told its size must fit beside what others hold") {
  EngineArgs args;
  args.kv_cache_memory = 8 * kGiB;
  args.max_model_len = 8192;
  const PlanResult alone = plan_of(llama_8b(), args);
  REQUIRE(alone.fits.value());
  args.gpu_memory_utilization = 0.01;  // vLLM does not look at what is left of it
  args.reserved = alone.total_bytes - alone.weights_bytes - alone.activation_peak_bytes -
                  alone.non_torch_bytes - alone.persistent_bytes - args.kv_cache_memory;
  CHECK(plan_of(llama_8b(), args).fits.value());
  ++args.reserved;
  CHECK_FALSE(plan_of(llama_8b(), args).fits.value());
}

TEST_CASE("the first boot's peak is a step's, where that takes more than compiling") {
  EngineArgs args;
  args.max_num_batched_tokens = 32768;
  const PlanResult step = plan_of(llama_8b(), args);
  REQUIRE(step.cold);
  CHECK(step.cold->activation_peak_bytes == step.activation_peak_bytes);
  CHECK(step.cold->kv_cache.middle == step.bounds->middle.kv_cache_bytes);
  args.max_num_batched_tokens = 2048;
  args.max_num_seqs = 64;
  const PlanResult compiling = plan_of(llama_8b(), args);
  CHECK(compiling.cold->activation_peak_bytes > compiling.activation_peak_bytes);
  CHECK(compiling.bounds->middle.kv_cache_bytes - compiling.cold->kv_cache.middle ==
        compiling.cold->activation_peak_bytes - compiling.activation_peak_bytes);
}

TEST_CASE("a window needs the blocks of its tokens and of those in flight") {
  struct Row {
    int64_t window, blocks;
  };
  // 0.32 has two steps of 1024 tokens in flight; of a window of w tokens w - 1 are held beside
  // them.
  const Row rows[] = {{16, 129}, {17, 129}, {18, 130}, {33, 130}, {34, 131}};
  for (const Row& row : rows) {
    INFO("window of " << row.window);
    Json config = gpt_oss(2, 4);
    config["sliding_window"] = row.window;
    EngineArgs args;
    args.max_num_batched_tokens = 1024;
    args.block_size = 16;
    const PlanResult result = plan_of(config, args);
    const auto window = std::find_if(result.group_needs.begin(), result.group_needs.end(),
                                     [](const GroupNeed& need) { return need.most_blocks > 0; });
    REQUIRE(window != result.group_needs.end());
    CHECK(window->most_blocks == row.blocks);
    CHECK(window->extra_blocks == 1);
  }
}

TEST_CASE("a rotary table has the rows that its kind stretches it to") {
  const auto buffers = [](const Json& scaling) {
    Json config = llama_8b();
    config["max_position_embeddings"] = 8192;
    config["rope_scaling"] = scaling;
    return plan_of(config).buffer_bytes;
  };
  constexpr int64_t kTable = 8192 * 128 * 2;
  const int64_t plain = buffers({{"type", "default"}});
  CHECK(buffers({{"type", "linear"}, {"factor", 2.0}}) == plain + kTable);
  CHECK(buffers({{"type", "dynamic"}, {"factor", 2.0}, {"alpha", 1000.0}}) == plain);
  CHECK(buffers({{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4096}}) ==
        plain + kTable);
}

TEST_CASE("the fewest GPUs are found, the largest number included") {
  for (const int64_t needed : {1, 2, 4, 8}) {
    INFO(needed << " needed");
    Probe probe{[needed](const EngineArgs& args, const hardware::Gpu*) {
                  return args.tensor_parallel >= needed;
                },
                {}};
    const PlanResult result = solve_gpus(probe.plan(), {}, nullptr, 8);
    CHECK_THAT(result.solved, Catch::StartsWith("Fewest GPUs: " + std::to_string(needed)));
    CHECK(result.gpus == needed);
  }
  Probe never{[](const EngineArgs&, const hardware::Gpu*) { return false; }, {}};
  CHECK(solve_gpus(never.plan(), {}, nullptr, 8).solved ==
        "No number of these GPUs up to 8 is enough.");
  std::vector<int64_t> tried;
  for (const EngineArgs& args : never.asked) tried.push_back(args.tensor_parallel);
  CHECK(tried == std::vector<int64_t>{1, 2, 4, 8});
}

TEST_CASE("as many sequences are found as the cache holds, to the last one") {
  struct Row {
    double held;
    const char* found;
  };
  for (const Row& row : {Row{1, "tokens: 1 ("}, Row{37, "tokens: 37 ("}, Row{37.99, "tokens: 37 ("},
                         Row{0.99, "Not even one sequence"}}) {
    INFO(row.held);
    const PlanFunction plan = [&](const EngineArgs& args, const hardware::Gpu*) {
      PlanResult result;
      result.fits = true;
      result.max_concurrency = row.held;
      result.max_num_seqs = args.max_num_seqs;
      return result;
    };
    CHECK_THAT(solve_sequences(plan, {}, nullptr).solved, Catch::Contains(row.found));
  }
}

TEST_CASE("sizes that the engine refuses are said as numbers of GPUs") {
  Probe probe{[](const EngineArgs& args, const hardware::Gpu*) {
                if (args.tensor_parallel < 4) throw Error(ExitCode::usage, "too few");
                return true;
              },
              {}};
  EngineArgs args;
  args.pipeline_parallel = 2;
  CHECK_THAT(solve_gpus(probe.plan(), args, nullptr, 8).solved,
             Catch::Contains("Refused sizes: 2, 4."));
}

TEST_CASE("stages and copies of a launch count among the GPUs that are searched") {
  struct Row {
    int64_t stages, copies;
    std::vector<int64_t> tensor_parallel;  // that are tried
  };
  for (const Row& row : {Row{2, 1, {1, 2, 4}}, Row{1, 2, {1, 2, 4}}, Row{2, 2, {1, 2}},
                         Row{1, 3, {1, 2}}, Row{4, 3, {1}}}) {
    INFO(row.stages << " stages, " << row.copies << " copies");
    Probe never{[](const EngineArgs&, const hardware::Gpu*) { return false; }, {}};
    EngineArgs args;
    args.pipeline_parallel = row.stages;
    args.data_parallel = row.copies;
    CHECK(solve_gpus(never.plan(), args, nullptr, 8).solved ==
          "No number of these GPUs up to 8 is enough.");
    std::vector<int64_t> tried;
    for (const EngineArgs& each : never.asked) tried.push_back(each.tensor_parallel);
    CHECK(tried == row.tensor_parallel);
  }
}

TEST_CASE("the most sequences are found to the last one") {
  for (const int64_t most : {1, 2, 3, 100, 65535, 65536}) {
    INFO(most << " find room");
    Probe probe{
        [most](const EngineArgs& args, const hardware::Gpu*) { return args.max_num_seqs <= most; },
        {}};
    const PlanResult result = solve_sequences(probe.plan(), {}, nullptr);
    CHECK(result.max_num_seqs == most);
    CHECK_THAT(result.solved,
               Catch::Contains(": " + std::to_string(most) +
                               (most == 65536 ? " (the search" : " (the KV cache holds no more)")));
  }
  Probe never{[](const EngineArgs&, const hardware::Gpu*) { return false; }, {}};
  const PlanResult none = solve_sequences(never.plan(), {}, nullptr);
  CHECK_THAT(none.solved, Catch::StartsWith("Not even one"));
  CHECK(none.max_num_seqs == 1);  // the plan beside it is the smallest that was tried
}

TEST_CASE("the smallest card that is large enough is found") {
  Probe probe{
      [](const EngineArgs&, const hardware::Gpu* gpu) { return gpu->memory_bytes >= 40 * kGiB; },
      {}};
  const std::string solved = solve_card(probe.plan(), {}).solved;
  CHECK_THAT(solved, Catch::StartsWith("Smallest card of the catalogue: A100-SXM4-40GB"));
}

TEST_CASE("advice stands with what fits first, and each part with what gains most first") {
  for (const char* card : {"a100-40gb", "4090", "l4"}) {
    INFO(card);
    const hardware::Gpu& gpu = hardware::find_gpu(card);
    const auto plan = [](const EngineArgs& args, const hardware::Gpu* on) {
      return plan_vllm({llama_8b(), "config.json"}, args, on);
    };
    EngineArgs args;
    args.gpu_memory_utilization = 0.5;
    const std::vector<Suggestion> advice = advise(plan, args, &gpu, plan(args, &gpu));
    std::vector<std::tuple<bool, int64_t, int64_t, double, int64_t>> order;
    for (const Suggestion& each : advice) {
      if (!each.helps) continue;
      order.emplace_back(each.fits, -each.measures, each.longest, each.requests, each.saves);
    }
    CHECK(order.size() >= 4);
    CHECK(std::is_sorted(order.rbegin(), order.rend()));
    CHECK_FALSE(advice.back().helps);
  }
}

TEST_CASE("the longest context of old releases is one whose own launch holds it") {
  // Above 32768 tokens prompts are read in parts by default, below them as a whole.
  const Json llama = read_json_file(kConfigs + "llama-3.1-8b.json");
  const hardware::Gpu& gpu = hardware::find_gpu("3090");
  EngineArgs args;
  args.version = {0, 6, 3};
  args.gpu_memory_utilization = 0.8;
  const PlanResult asked = plan_vllm({llama, "config.json"}, args, &gpu);
  const int64_t longest = asked.estimated_max_model_len;
  CHECK(asked.max_model_len == 131072);
  CHECK(asked.auto_max_model_len == longest);
  CHECK(longest > 4096);
  args.max_model_len = longest;
  const PlanResult launch = plan_vllm({llama, "config.json"}, args, &gpu);
  CHECK(launch.fits == true);
  CHECK(launch.max_concurrency == asked.max_concurrency);
  args.max_model_len = longest + 64;
  CHECK(plan_vllm({llama, "config.json"}, args, &gpu).fits == false);
}
