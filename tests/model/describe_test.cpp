// Models that are described for plans of vLLM: what run could not compute does not count.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/error.h"
#include "like_cases.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "model/families/family.h"
#include "model/stage_weights.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using plimsoll::testing::tiny_config;

namespace {

int64_t elements(const model::ModelSpec& spec) {
  int64_t sum = 0;
  for (const model::WeightSpec& weight : spec.weights) sum += weight.elements();
  return sum;
}

}  // namespace

TEST_CASE("a description has the weights of the model that runs") {
  const Json config = tiny_config("LlamaForCausalLM");
  const auto described = model::describe_language_model("LlamaForCausalLM", config);
  REQUIRE(described);
  CHECK(elements(*described) == elements(model::make_model_spec(config)));
  CHECK_FALSE(model::describe_language_model("WombatForCausalLM", config));
}

TEST_CASE("what no weight depends on refuses a run, not a description") {
  for (const auto& [key, value] :
       std::map<std::string, Json>{{"hidden_act", "snake"},
                                   {"rms_norm_eps", -1},
                                   {"rope_scaling", {{"rope_type", "spiral"}, {"factor", 2}}}}) {
    Json config = tiny_config("LlamaForCausalLM");
    config[key] = value;
    INFO(key);
    CHECK_THROWS_AS(model::make_model_spec(config), Error);
    CHECK(model::describe_language_model("LlamaForCausalLM", config));
  }
  Json config = tiny_config("LlamaForCausalLM");
  config["hidden_size"] = 0;
  CHECK_THROWS_AS(model::describe_language_model("LlamaForCausalLM", config), Error);
}

TEST_CASE("a family that plan alone counts is described and not served") {
  const std::vector<std::string> served = model::supported_architectures();
  int counted = 0;
  for (const model::Family& family : model::families()) {
    if (!family.counted) continue;
    INFO(family.architecture);
    ++counted;
    CHECK(model::is_language_model(family.architecture));
    CHECK(std::ranges::count(served, family.architecture) == 0);
    const Json config = {{"architectures", {std::string(family.architecture)}},
                         {"model_type", std::string(family.model_type)}};
    CHECK_THROWS_WITH(model::make_model_spec(config), Catch::Contains("is not supported"));
  }
  CHECK(counted > 20);
}

TEST_CASE("of a description's experts the first stands for all") {
  Json config = tiny_config("MixtralForCausalLM");
  config["num_local_experts"] = 4096;
  const auto spec = model::describe_language_model("MixtralForCausalLM", config);
  REQUIRE(spec);
  const model::MlpSpec& mlp = spec->layers.front().mlp;
  CHECK(mlp.experts == 4096);
  CHECK(spec->weight(mlp.up.weight).parts.size() == 2);
  CHECK(spec->weight(mlp.down.weight).parts.size() == 1);
}

TEST_CASE("a stage holds its layers, and of the rest what its class has there") {
  const Json config = tiny_config("LlamaForCausalLM", {{"num_hidden_layers", 2}});
  const auto spec = model::describe_language_model("LlamaForCausalLM", config);
  REQUIRE(spec);
  const model::StageWeights places(*spec);
  const auto layers = static_cast<int64_t>(spec->layers.size());
  const model::StageOfMany first{.layers = {0, 1}, .first = true, .last = false};
  const model::StageOfMany last{.layers = {1, layers}, .first = false, .last = true};
  CHECK(places.holds(spec->embedding, first));
  CHECK(places.holds(spec->embedding, last) == (spec->head == spec->embedding));
  CHECK_FALSE(places.holds(spec->final_norm.weight, first));
  CHECK(places.holds(spec->final_norm.weight, last));
  CHECK(places.holds(spec->layers[0].attention.qkv.weight, first));
  CHECK_FALSE(places.holds(spec->layers[0].attention.qkv.weight, last));
}

TEST_CASE("a config without a key, or with nonsense in it, is described or refused in any family") {
  const Json whole = tiny_config("", {{"q_lora_rank", 8},
                                      {"kv_lora_rank", 8},
                                      {"qk_rope_head_dim", 4},
                                      {"qk_nope_head_dim", 4},
                                      {"v_head_dim", 4},
                                      {"num_experts", 4},
                                      {"moe_num_experts", 4},
                                      {"n_routed_experts", 4},
                                      {"num_experts_per_tok", 2},
                                      {"hybrid_override_pattern", "M*"},
                                      {"layers_block_type", {"mamba", "attention"}},
                                      {"use_bias", true}});
  const Json values[] = {nullptr, 0, 1, -1, 1 << 30, 0.5, "", Json::array()};
  const Json no_layers = {{"num_hidden_layers", nullptr}};
  int described = 0, refused = 0;
  const auto attempt = [&](const auto& describe) {
    try {
      describe();
      ++described;
    } catch (const Error&) {
      ++refused;
    }
  };
  size_t number = 0;
  for (const model::Family& family : model::families()) {
    if (!testing::is_taken_sanitized(number++, 7)) continue;
    for (const auto& [key, usual] : whole.items()) {
      if (key == "architectures") continue;
      for (const Json& value : values) {
        Json config = whole;
        config["architectures"] = {std::string(family.architecture)};
        config["model_type"] = std::string(family.model_type);
        config.merge_patch({{key, value}});
        attempt([&] { model::make_model_spec(config); });
        attempt([&] { model::describe_language_model(family.architecture, config); });
        config.merge_patch(no_layers);
        attempt([&] { model::describe_language_model(family.architecture, config); });
      }
    }
  }
  CHECK(described > 300);
  CHECK(refused > 300);
}
