// Values of configs that are seldom there: what is read of them, and which are refused.
#include <catch2/catch.hpp>
#include <string>

#include "base/error.h"
#include "batch/scratch.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/families/multimodal/languages.h"
#include "model/pipeline.h"
#include "model/tiny_config.h"
#include "model/vllm/classes.h"
#include "model/vllm/types.h"

namespace plimsoll::model::seldom_keys {

using plimsoll::testing::tiny_config;

namespace {

ModelSpec tiny(const char* architecture, const Json& changes) {
  return make_model_spec(tiny_config(architecture, changes));
}

/// The message that refuses a config; empty: none does.
std::string refusal_of(const char* architecture, const Json& changes) {
  try {
    tiny(architecture, changes);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint_unusable);
    return error.what();
  }
  return "";
}

Json rope(const Json& parameters) {
  return {{"rope_scaling", parameters}};
}

}  // namespace

TEST_CASE("values that a family cannot compute are refused by key and by what is expected") {
  struct Row {
    const char* architecture;
    Json changes;
    const char* said;
  };
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 4.0},
                       {"high_freq_factor", 1.0},
                       {"original_max_position_embeddings", 64}};
  const Row rows[] = {
      {"LlamaForCausalLM", rope(llama3), "expected low_freq_factor or more"},
      {"LlamaForCausalLM", rope({{"rope_type", "linear"}, {"factor", 0.001}}),
       "expected a factor that gives a context of 1 to 2^40 positions"},
      {"LlamaForCausalLM",
       {{"head_dim", 2}, {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}},
       "expected a head of at least 4 for dynamic scaling"},
      {"LlamaForCausalLM",
       {{"rope_theta", 1.0}, {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}}},
       "expected a base above 1 for yarn"},
      {"LlamaForCausalLM", {{"torch_dtype", "int8"}}, "\"torch_dtype\" is"},
      {"LlamaForCausalLM", {{"torch_dtype", nullptr}, {"dtype", "int8"}}, "\"dtype\" is"},
      {"LlamaForCausalLM", {{"alibi", true}}, "\"alibi\" is"},
      {"LlamaForCausalLM", {{"block_configs", {1}}}, "\"block_configs\" is"},
      {"Exaone4ForCausalLM",
       {{"sliding_window", 8}, {"sliding_window_pattern", ""}},
       "expected letters L and G"},
      {"Exaone4ForCausalLM",
       {{"sliding_window", 8}, {"sliding_window_pattern", "LX"}},
       "expected letters L and G"},
      {"Llama4ForCausalLM",
       {{"no_rope_layers", {1, 0}}},
       "expected a list of 0 and 1 for all layers"},
      {"Llama4ForCausalLM", {{"no_rope_layers", {"1"}}}, "expected a list of 0 and 1"},
  };
  for (const Row& row : rows) {
    INFO(row.architecture << " " << row.changes.dump());
    CHECK_THAT(refusal_of(row.architecture, row.changes), Catch::Contains(row.said));
  }
  for (const Json& changes :
       {Json{{"alibi", false}}, Json{{"alibi", 0}}, Json{{"block_configs", Json::array()}},
        Json{{"torch_dtype", "float64"}}, rope({{"rope_type", "linear"}, {"factor", 0.5}})}) {
    INFO(changes.dump());
    CHECK(refusal_of("LlamaForCausalLM", changes).empty());
  }
}

TEST_CASE("Llama 3's scaling has a step where its two bounds are one") {
  const ModelSpec spec = tiny("LlamaForCausalLM", {{"rope_theta", 10000.0},
                                                   {"rope_scaling",
                                                    {{"rope_type", "llama3"},
                                                     {"factor", 8.0},
                                                     {"low_freq_factor", 1.0},
                                                     {"high_freq_factor", 1.0},
                                                     {"original_max_position_embeddings", 64}}}});
  // Heads of 4: wavelengths of 2 pi, which 64 positions hold, and of 200 pi.
  const std::vector<float>& table = spec.ropes.at(0).table.inverse_frequencies;
  REQUIRE(table.size() == 2);
  CHECK(table[0] == Approx(1));
  CHECK(table[1] == Approx(0.01 / 8));
}

TEST_CASE("numbers of generation_config.json are whole where they must be, and token ids are ids") {
  const test::Scratch folder;
  const auto read = [&](const Json& generation) {
    folder.write("generation_config.json", generation.dump());
    return read_generation_config(folder.path(""), Json::object());
  };
  CHECK(read({{"eos_token_id", 2147483647}}).eos_token_ids == std::vector<int32_t>{2147483647});
  CHECK(read({{"eos_token_id", {3, 0}}}).eos_token_ids == std::vector<int32_t>{3, 0});
  for (const Json& id : {Json(2147483648), Json(-2), Json(1.5), Json("2")}) {
    INFO(id.dump());
    CHECK_THROWS_WITH(read({{"eos_token_id", id}}), Catch::Contains("\"eos_token_id\" is not"));
  }
  CHECK(read({{"top_k", 0x1p53}}).top_k == int64_t{1} << 53);
  CHECK(read({{"max_new_tokens", 7.0}}).max_new_tokens == 7);
  for (const char* key : {"top_k", "max_new_tokens"}) {
    for (const double number : {0.5, 0x1p54}) {
      CHECK_THROWS_WITH(read({{key, number}}),
                        Catch::Contains(key) && Catch::Contains("expected a whole number"));
    }
  }
}

TEST_CASE("a folder with an adapter alone names the model that it adapts") {
  const test::Scratch folder;
  const auto said = [&](const Json& adapter) {
    folder.write("adapter_config.json", adapter.dump());
    return missing_config(folder.path(""));
  };
  CHECK_THAT(said({{"base_model_name_or_path", "org/base"}}), Catch::Contains("give org/base, or"));
  CHECK_THAT(said({{"base_model_name_or_path", nullptr}}),
             Catch::Contains("give its base model, or"));
  CHECK_THAT(said(Json::object()), Catch::Contains("give its base model, or"));
}

TEST_CASE("layers are parted by numbers from 0 to 4096") {
  CHECK(parse_partition("0,4096") == std::vector<int64_t>{0, 4096});
  CHECK(parse_partition(" 3, 4 ") == std::vector<int64_t>{3, 4});
  for (const char* text : {"4097", "-1", "3,,4", "3,", "", "3.5"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_partition(text), Catch::StartsWith("VLLM_PP_LAYER_PARTITION="));
  }
}

TEST_CASE("an unknown decoder is read as its nearest kin") {
  struct Row {
    bool latents, mixture;
    std::string_view kin;
  };
  for (const Row& row :
       {Row{true, true, "DeepseekV3ForCausalLM"}, Row{true, false, "MiniCPM3ForCausalLM"},
        Row{false, true, kUnknownMixture}, Row{false, false, "LlamaForCausalLM"}}) {
    const Json text = row.latents ? Json{{"kv_lora_rank", 512}} : Json::object();
    CHECK(nearest_kin(ConfigView(text, "config.json"), row.mixture).architecture == row.kin);
  }
}

TEST_CASE("a wrapper's language model follows its version, its width or its inner type") {
  const auto view = [](const Json& config) { return ConfigView(config, "config.json"); };
  const Json first = {{"hidden_size", 2304}}, later = {{"hidden_size", 4096}};
  CHECK(language_of_mini_cpm_v(view(first)) == "MiniCPMForCausalLM");
  CHECK(language_of_mini_cpm_v(view(later)) == "LlamaForCausalLM");
  struct Row {
    Json version;
    const char *sees, *hears;
  };
  for (const Row& row : {Row{"2.0", "MiniCPMForCausalLM", "MiniCPMForCausalLM"},
                         Row{2.6, "Qwen2ForCausalLM", "Qwen2ForCausalLM"},
                         Row{4.5, "Qwen3ForCausalLM", "Qwen3ForCausalLM"},
                         Row{2.5, "LlamaForCausalLM", "LlamaForCausalLM"},
                         Row{nullptr, "LlamaForCausalLM", "Qwen2ForCausalLM"}}) {
    const Json config = {{"version", row.version}};
    CHECK(language_of_mini_cpm_v(view(config)) == row.sees);
    CHECK(language_of_mini_cpm_o(view(config)) == row.hears);
  }
  const Json latent = {{"text_config", {{"model_type", "mistral4"}}}};
  CHECK(language_of_mistral_3(view(latent)) == "DeepseekV3ForCausalLM");
  CHECK(language_of_mistral_3(view(first)) == "MistralForCausalLM");
}

TEST_CASE("dtype auto of a release that refused what the card lacks") {
  const VllmVersion before{0, 9, 0}, since{0, 9, 1};
  CHECK(auto_dtype("float32", "llama", before, true, false) == "float16");
  CHECK(auto_dtype("float32", "plamo2", before, true, false) == "bfloat16");
  CHECK(auto_dtype("bfloat16", "llama", before, false, false) == "bfloat16");
  CHECK(auto_dtype("bfloat16", "llama", since, false, false) == "float16");
  CHECK(auto_dtype("float32", "llama", since, true, true) == "float16");
  CHECK(auto_dtype("float32", "llama", since, true, false) == "bfloat16");
  CHECK(auto_dtype("float32", "plamo2", since, true, true) == "bfloat16");
  CHECK(auto_dtype("float16", "plamo2", since, false, false) == "float32");
}

TEST_CASE("Phi-3.5-MoE's windows, jitter and bias are read where they are stated") {
  const auto spec = [](const Json& changes) {
    Json mixture = {{"num_local_experts", 4}, {"num_experts_per_tok", 2}};
    mixture.update(changes);
    return tiny("PhiMoEForCausalLM", mixture);
  };
  const auto window = [&](const Json& changes) {
    return spec(changes).layers.at(0).attention.window;
  };
  CHECK(window({{"sliding_window", 127}}) == 127);
  CHECK(window({{"sliding_window", 128}}) == 0);  // as long as the context
  CHECK(window(Json::object()) == 0);
  const auto nearness = [&](const Json& changes) {
    return spec(changes).layers.at(0).mlp.router.nearness;
  };
  CHECK(nearness(Json::object()) == Approx(0.02));
  CHECK(nearness({{"router_jitter_noise", 0.05}}) == Approx(0.1));
  CHECK(nearness({{"router_jitter_noise", 0}}) == 0);
  CHECK(spec(Json::object()).head_bias == kNoWeight);
  CHECK(spec({{"lm_head_bias", true}}).head_bias != kNoWeight);
}

}  // namespace plimsoll::model::seldom_keys
