// Architectures that go by several names are one model to plan, run and shard.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/tiny_config.h"

using namespace plimsoll;

namespace {

/// The weights as `shard` writes them: names, shapes and the tensors that they are made of.
std::vector<std::string> lines_of_weights(const model::ModelSpec& spec) {
  std::vector<std::string> lines;
  for (const model::WeightSpec& weight : spec.weights) {
    std::string line = weight.name;
    for (const int64_t size : weight.shape) line += " " + std::to_string(size);
    for (const model::Part& part : weight.parts) line += " " + part.tensor;
    lines.push_back(line);
  }
  return lines;
}

/// A config that has what any of these families requires.
Json small_config(const std::string& architecture, const std::string& type) {
  Json config = testing::tiny_config(architecture, {{"model_type", type},
                                                    {"head_dim", nullptr},
                                                    {"layernorm_epsilon", 1e-5},
                                                    {"hybrid_override_pattern", "M"},
                                                    {"hybrid_layer_pattern", Json::parse("[0]")},
                                                    {"n_routed_experts", 8},
                                                    {"num_experts_per_tok", 2},
                                                    {"moe_intermediate_size", 16}});
  if (type != "deepseek_v3") return config;
  for (const char* key : {"q_lora_rank", "kv_lora_rank", "v_head_dim"}) config[key] = 8;
  for (const char* key : {"qk_nope_head_dim", "qk_rope_head_dim"}) config[key] = 4;
  return config;
}

struct NamePair {
  const char* alias;
  const char* family;
};

}  // namespace

TEST_CASE("each alias is described as its family by plan, run and shard") {
  const auto [alias, name] = GENERATE(values<NamePair>({
      {"Gemma2Model", "Gemma2ForCausalLM"},
      {"Gemma3TextModel", "Gemma3ForCausalLM"},
      {"LlamaModel", "LlamaForCausalLM"},
      {"MPTForCausalLM", "MptForCausalLM"},
      {"MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM"},
      {"MistralLarge3ForCausalLM", "DeepseekV3ForCausalLM"},
      {"MistralModel", "MistralForCausalLM"},
      {"NemotronHPuzzleForCausalLM", "NemotronHForCausalLM"},
      {"OPTModel", "OPTForCausalLM"},
      {"Qwen2Model", "Qwen2ForCausalLM"},
      {"Qwen3Model", "Qwen3ForCausalLM"},
      {"RWForCausalLM", "FalconForCausalLM"},
      {"SolarForCausalLM", "LlamaForCausalLM"},
      {"YiForCausalLM", "LlamaForCausalLM"},
  }));
  INFO(alias);
  const model::Family* const family = model::find_architecture(name);
  REQUIRE(family != nullptr);
  Json config = small_config(name, std::string(family->model_type));
  const model::ModelSpec known = model::make_model_spec(config);
  const std::vector<std::string> planned =
      lines_of_weights(model::describe_language_model(name, config).value());
  config["architectures"] = Json::array({alias});
  const model::ModelSpec spec = model::make_model_spec(config);
  CHECK(spec.architecture == alias);
  CHECK(spec.vllm.never_ties == known.vllm.never_ties);
  CHECK(lines_of_weights(spec) == lines_of_weights(known));
  CHECK(lines_of_weights(model::describe_language_model(alias, config).value()) == planned);
}

TEST_CASE("what an alias would be computed without is refused by its key") {
  const auto [alias, type, key] = GENERATE(table<std::string, std::string, std::string>({
      {"MistralLarge3ForCausalLM", "deepseek_v3", "llama_4_scaling"},
      {"NemotronHPuzzleForCausalLM", "nemotron_h", "block_configs"},
      {"SolarForCausalLM", "llama", "bskcn_1"},
  }));
  Json config = small_config(alias, type);
  CHECK_NOTHROW(model::make_model_spec(config));
  config[key] = {12, 20};
  CHECK_THROWS_WITH(model::make_model_spec(config), Catch::Contains("\"" + key + "\" is [12,20]"));
}

TEST_CASE("a model_type that no class is named after is counted as its architecture") {
  CHECK(model::architecture_of_type("kimi_k2") == "DeepseekV3ForCausalLM");
  CHECK(model::architecture_of_type("mistral4") == "DeepseekV3ForCausalLM");
  CHECK(model::architecture_of_type("glm4v_text") == "Glm4ForCausalLM");
  CHECK(model::architecture_of_type("llama3v").empty());
  CHECK(model::architecture_of_type("").empty());
}

TEST_CASE("names that neither vLLM nor transformers has are unknown") {
  CHECK(model::find_architecture("MossForCausalLM") == nullptr);
  CHECK(model::find_architecture("") == nullptr);
}
