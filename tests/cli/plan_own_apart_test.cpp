// Plans of our own engine whose ranks several processes share.
#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/planned.h"
#include "model/config.h"
#include "plan/plimsoll/plimsoll_plan.h"

namespace plimsoll::plan::apart {
namespace {

constexpr int64_t kTokens = 512;

/// On this machine's processor.
PlanResult plan_shared(int64_t tensor, int64_t stages, int64_t processes) {
  const Json config = parse_json<Json>(read_text_file(test::kConfigs + "llama-3.1-8b.json"));
  launch::Arguments arguments;
  arguments.lone_config = &config;
  arguments.processes = processes;
  arguments.args.tensor_parallel = tensor;
  arguments.args.pipeline_parallel = stages;
  arguments.args.max_num_batched_tokens = kTokens;
  arguments.args.max_model_len = 4096;
  launch::ModelSource model(model::make_model_spec(config), config, {},
                            launch::Experts::first_alone);
  return own::make_plan(model, arguments, nullptr);
}

/// Bytes and formula of a part; zero: there is none.
std::pair<int64_t, std::string> part_of(const std::vector<vllm::PlanPart>& parts,
                                        const std::string& name) {
  const auto at = std::ranges::find(parts, name, &vllm::PlanPart::name);
  return at == parts.end() ? std::pair(int64_t{0}, std::string())
                           : std::pair(at->bytes, at->formula);
}

}  // namespace

TEST_CASE("ranks that are launched apart have room for messages, and for the last stage's logits") {
  constexpr int64_t kRow = 128256 * 4, kRows = (int64_t{64} << 20) / kRow;
  struct Row {
    int64_t tensor, stages, processes;
    bool sums, logits;  // go from process to process
  };
  const Row rows[] = {{2, 1, 1, false, false},
                      {2, 1, 2, true, false},
                      {1, 2, 1, false, false},
                      {1, 2, 2, false, true},
                      {2, 2, 2, false, true},
                      {2, 2, 4, true, true},
                      // Processes that do not divide the ranks, which run refuses.
                      {2, 1, 3, false, false},
                      {2, 2, 3, false, false}};
  for (const Row& row : rows) {
    INFO(row.tensor << " x " << row.stages << " ranks, " << row.processes << " processes");
    const PlanResult plan = plan_shared(row.tensor, row.stages, row.processes);
    CHECK(std::ssize(plan.stages) == (row.stages > 1 ? row.stages : 0));
    std::vector<vllm::StageFigures> stages = plan.stages;
    if (stages.empty()) stages.push_back(plan);
    for (const vllm::StageFigures& stage : stages) {
      const auto [bytes, formula] = part_of(stage.parts, "messages");
      CHECK((bytes > 0) == row.sums);
      if (row.sums) CHECK(formula == "sums on their way to and from ranks in other processes");
      const auto [staging, words] = part_of(stage.parts, "logits staging");
      const bool stands = row.logits && stage.stage == 0;
      CHECK(staging == (stands ? kRows * kRow : 0));
      if (stands) CHECK(words == "130 rows from the last stage, in another process");
      CHECK(part_of(stage.parts, "hidden states").first ==
            (row.stages > 1 ? kTokens * 4096 * 4 : 0));
    }
  }
}

TEST_CASE("of a window a sequence takes the blocks that its tokens touch, wherever they begin") {
  const Json config = parse_json<Json>(R"({"architectures": ["MistralForCausalLM"],
      "model_type": "mistral", "torch_dtype": "bfloat16", "hidden_size": 1024,
      "intermediate_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 8,
      "num_key_value_heads": 2, "vocab_size": 32000, "max_position_embeddings": 8192,
      "sliding_window": 512})");
  // 511 tokens before a step's: of 1025 tokens one is in the first of 65 blocks at most.
  for (const auto& [tokens, blocks] : std::vector<std::pair<int64_t, int64_t>>{
           {513, 65}, {514, 65}, {515, 66}, {530, 66}, {531, 67}}) {
    INFO(tokens);
    launch::Arguments arguments;
    arguments.lone_config = &config;
    arguments.args.max_num_batched_tokens = tokens;
    arguments.args.max_model_len = 8192;
    launch::ModelSource model(model::make_model_spec(config), config, {},
                              launch::Experts::first_alone);
    const PlanResult plan = own::make_plan(model, arguments, nullptr);
    REQUIRE(plan.group_needs.size() == 1);
    CHECK(plan.group_needs[0].block_size == 16);
    CHECK(plan.group_needs[0].most_blocks == blocks);
  }
}

}  // namespace plimsoll::plan::apart
