// What a prompt file needs of a plan's cache, and the arguments of a plan as a user pastes them.
#include <catch2/catch.hpp>

#include <functional>

#include "plan/arguments.h"
#include "plan/configs.h"
#include "plan/prompt_load.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

PlanResult blocks_of_16(int64_t sequences, int64_t blocks) {
  PlanResult result;
  result.group_needs.emplace_back().block_size = 16;
  result.has_kv = true;
  result.max_num_seqs = sequences;
  result.num_gpu_blocks = blocks;
  return result;
}

std::map<std::string, std::string> arguments_of(PlanResult result, const EngineArgs& args) {
  add_arguments(result, args);
  return {result.arguments.begin(), result.arguments.end()};
}

}  // namespace

TEST_CASE("the load of a prompt file, by hand") {
  // At their ends 2, 2, 2 and 7 blocks; halfway through their answers 2, 2, 2 and 7 too.
  const std::vector<SequenceLength> sequences = {{16, 1}, {32, 0}, {10, 22}, {100, 0}};
  const PromptLoad load = weigh_sequences(blocks_of_16(2, 4), sequences);
  CHECK(load.longest_blocks == 7);
  CHECK(load.peak_blocks == 7 + 2);
  // Steps: 1 + 1 + 22 + 1. Blocks held in them: 2 + 2 + 22 x 2 + 7.
  CHECK(load.concurrency == Approx(4.0 * 25 / 55));
  CHECK(weigh_sequences(blocks_of_16(2, 100), sequences).concurrency == 2);
  CHECK(weigh_sequences(blocks_of_16(9, 100), sequences).concurrency == 4);
  CHECK(weigh_sequences(blocks_of_16(9, 100), sequences).peak_blocks == 13);
  CHECK(weigh_sequences(blocks_of_16(0, 100), sequences).peak_blocks == 7);
  const PromptLoad none = weigh_sequences(blocks_of_16(2, 4), {});
  CHECK(none.longest_blocks + none.peak_blocks == 0);
  CHECK(none.concurrency == 0);
  PlanResult without = blocks_of_16(2, 4);
  without.has_kv = false;
  CHECK(weigh_sequences(without, sequences).concurrency == 0);
}

TEST_CASE("half of an answer is held in the middle of a sequence's life, an odd one rounded up") {
  // 15 + 2 tokens halfway: 2 blocks.
  const std::vector<SequenceLength> odd = {{15, 3}};
  CHECK(weigh_sequences(blocks_of_16(8, 1), odd).concurrency == 0.5);
  const std::vector<SequenceLength> even = {{15, 2}};
  CHECK(weigh_sequences(blocks_of_16(8, 1), even).concurrency == 1);
}

TEST_CASE("what prefixes save is forecast of one scheduler with one step under way") {
  struct Row {
    const char* name;
    std::function<void(EngineArgs&)> change;
    bool forecast;
  };
  const Row rows[] = {
      {"the default", [](EngineArgs&) {}, true},
      {"ranks", [](EngineArgs& args) { args.tensor_parallel = 2; }, true},
      {"stages", [](EngineArgs& args) { args.pipeline_parallel = 2; }, false},
      {"copies", [](EngineArgs& args) { args.data_parallel = 2; }, false},
      {"drafts", [](EngineArgs& args) { args.draft_method = "ngram", args.draft_tokens = 4; },
       false},
      {"no cache of prefixes", [](EngineArgs& args) { args.prefix_caching = false; }, false},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    EngineArgs args;
    row.change(args);
    CHECK(plan_of(llama_8b(), args).shared_windows == std::vector<int64_t>(row.forecast ? 1 : 0));
    CHECK(plan_of(hybrid(), args).shared_windows.empty());  // states have rules of their own
  }
  EngineArgs ranks;  // that divide the context
  ranks.tensor_parallel = 16;
  CHECK(plan_of(llama_8b(), ranks).shared_windows.size() == 1);
  ranks.context_ranks = 2;
  CHECK(plan_of(llama_8b(), ranks).shared_windows.empty());
}

TEST_CASE("a plan's arguments are those that are resolved, each where it has its flag") {
  PlanResult result;
  result.engine = "vllm";
  result.max_model_len = 4096;
  result.max_num_seqs = 64;
  result.max_num_batched_tokens = 2048;
  result.gpu_memory_utilization = 0.92;
  result.kv_cache_bytes = 12345;
  EngineArgs args;
  using Flags = std::map<std::string, std::string>;
  const Flags least = {
      {"--max-model-len", "4096"}, {"--max-num-seqs", "64"}, {"--max-num-batched-tokens", "2048"}};
  CHECK(arguments_of(result, args) == least);
  args.tensor_parallel = 2;
  args.pipeline_parallel = 3;
  args.data_parallel = 4;
  result.budget_bytes = 1;
  result.auto_max_model_len = 1000;
  CHECK(arguments_of(result, args) == Flags{{"--tensor-parallel-size", "2"},
                                            {"--pipeline-parallel-size", "3"},
                                            {"--data-parallel-size", "4"},
                                            {"--max-model-len", "1000"},
                                            {"--max-num-seqs", "64"},
                                            {"--max-num-batched-tokens", "2048"},
                                            {"--gpu-memory-utilization", "0.92"}});
  const auto pinned = [&](const char* flag) { return arguments_of(result, args).contains(flag); };
  result.bounds.emplace();
  args.version = {0, 11, 0};
  CHECK(!pinned("--kv-cache-memory-bytes"));  // each stage has its own
  args.pipeline_parallel = 1;
  CHECK(arguments_of(result, args)["--kv-cache-memory-bytes"] == "12345");
  args.version = {0, 10, 2};
  CHECK(!pinned("--kv-cache-memory-bytes"));
  result.engine = "plimsoll";
  CHECK(!pinned("--gpu-memory-utilization"));
}
