// Architectures that no table knows: estimated as their nearest kin, with a word about it, or
// without a verdict.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/json.h"
#include "plan/configs.h"
#include "plan/report/report.h"
#include "plan/vllm_plan.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

PlanResult plan_unknown(const EngineArgs& args) {
  return plan_vllm({unknown_decoder(), "config.json"}, args, &hardware::find_gpu("h100"));
}

}  // namespace

TEST_CASE("mixtures of an unknown architecture have their experts counted, or no verdict") {
  const auto plan = [](const Json& changes) {
    Json config = unknown_decoder();
    config.update(changes);
    return plan_vllm({config, "config.json"}, {}, &hardware::find_gpu("h100"));
  };
  const int64_t dense = plan(Json::object()).parameter_bytes;
  constexpr int64_t kLayers = 8, kWidth = 1024, kMlp = 3 * kWidth * 4096;
  for (const char* key : {"num_experts", "n_routed_experts", "num_local_experts"}) {
    INFO(key);
    const PlanResult mixture =
        plan({{key, 64}, {"moe_intermediate_size", 512}, {"num_experts_per_tok", 4}});
    constexpr int64_t kExperts = 64 * 3 * kWidth * 512 + 64 * kWidth;  // and the router
    CHECK(mixture.parameter_bytes == dense + kLayers * (kExperts - kMlp) * 2);
    CHECK(mixture.fits);
    const PlanResult later = plan({{key, 64},
                                   {"moe_intermediate_size", 512},
                                   {"first_k_dense_replace", 1},
                                   {"n_shared_experts", 2}});
    constexpr int64_t kShared = 2 * 3 * kWidth * 512;
    CHECK(later.parameter_bytes == dense + (kLayers - 1) * (kExperts + kShared - kMlp) * 2);
  }
  for (const Json& changes : {Json{{"experts_in_each_layer", 64}}, Json{{"mamba_d_state", 128}},
                              Json{{"layer_types", {"linear_attention", "full_attention"}}}}) {
    INFO(changes.dump());
    const PlanResult unknown = plan(changes);
    CHECK_FALSE(unknown.fits);
    CHECK_THAT(unknown.reason, Catch::Contains("not counted"));
  }
}

TEST_CASE("an unknown architecture is estimated, and the output says from what") {
  EngineArgs args;
  const PlanResult by_config = plan_unknown(args);
  REQUIRE_FALSE(by_config.notes.empty());
  CHECK_THAT(by_config.notes.front(), Catch::Contains("Llama-like"));
  args.tensors = CheckpointTensors{250'000'000, 1000};
  const PlanResult by_headers = plan_unknown(args);
  CHECK(by_headers.parameter_bytes == 500'001'000);
  CHECK(by_headers.kv_bytes_per_token == 8 * 2 * 4 * 64 * 2);
  REQUIRE_FALSE(by_headers.notes.empty());
  CHECK_THAT(by_headers.notes.front(), Catch::Contains("headers"));
  args.tensor_parallel = 4;
  CHECK(plan_unknown(args).parameter_bytes == 500'001'000 / 4);
  args.pipeline_parallel = 2;
  CHECK(plan_unknown(args).parameter_bytes == 500'001'000 / 8);
  args = {};
  args.tensors = CheckpointTensors{1, 1};
  Json known = unknown_decoder();
  known["architectures"] = {"LlamaForCausalLM"};
  const PlanResult llama = plan_vllm({known, "config.json"}, args, &hardware::find_gpu("h100"));
  CHECK(llama.parameter_bytes == by_config.parameter_bytes);
  CHECK(is_known_architecture({known, "config.json"}));
  CHECK_FALSE(is_known_architecture({unknown_decoder(), "config.json"}));
  Json shapeless = {{"architectures", {"WombatForCausalLM"}}};
  CHECK_THROWS_AS(plan_vllm({shapeless, "config.json"}, {}, nullptr), Error);
}

TEST_CASE("an unknown architecture without one of a decoder's keys is refused") {
  const std::vector<std::string> keys = {"hidden_size", "num_hidden_layers", "num_attention_heads",
                                         "intermediate_size", "vocab_size"};
  for (const std::string& key : keys) {
    INFO(key);
    Json config = unknown_decoder();
    REQUIRE(config.erase(key) == 1);
    CHECK_THROWS_WITH(plan_vllm({config, "config.json"}, {}, &hardware::find_gpu("h100")),
                      Catch::Contains("does not describe a decoder"));
  }
}
