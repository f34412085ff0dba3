// Multimodal models: a text family below a vision tower.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "batch/scratch.h"
#include "model/config.h"
#include "model/input_norm.h"
#include "model/vision_spec.h"

namespace plimsoll::model {
namespace {

Json text_config(const std::string& type) {
  return {{"model_type", type},
          {"vocab_size", 100},
          {"hidden_size", 32},
          {"intermediate_size", 48},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"vocab_size_per_layer_input", 100},
          {"num_kv_shared_layers", 0},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"max_position_embeddings", 64}};
}

Json llava_config() {
  return {{"architectures", {"LlavaForConditionalGeneration"}},
          {"text_config", text_config("llama")},
          {"vision_config",
           {{"model_type", "clip_vision_model"},
            {"hidden_size", 16},
            {"intermediate_size", 24},
            {"num_hidden_layers", 4},
            {"num_attention_heads", 2},
            {"image_size", 28},
            {"patch_size", 14}}}};
}

Json internvl_config() {
  return {{"architectures", {"InternVLChatModel"}},
          {"llm_config", text_config("qwen2")},
          {"vision_config",
           {{"hidden_size", 15},
            {"intermediate_size", 24},
            {"num_hidden_layers", 2},
            {"num_attention_heads", 3},
            {"image_size", 28},
            {"patch_size", 14},
            {"qkv_bias", true},
            {"qk_normalization", false},
            {"norm_type", "layer_norm"}}}};
}

bool has_tower(const ModelSpec& spec, const std::string& name) {
  return std::ranges::find(spec.towers, name, &WeightSpec::name) != spec.towers.end();
}

std::string refusal(const Json& config) {
  try {
    make_model_spec(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// The two buffers that a preprocessor_config.json gives; empty: none.
std::vector<WeightSpec> norm_of(const Json& file) {
  const test::Scratch scratch;
  scratch.write("preprocessor_config.json", file.dump());
  return read_input_norm(scratch.path(""), "visual.input_norm");
}

}  // namespace

TEST_CASE("the text model stands below language_model and keeps its own table") {
  const ModelSpec spec = make_model_spec(llava_config());
  CHECK(spec.architecture == "LlavaForConditionalGeneration");
  CHECK(spec.family == "llama");
  CHECK(spec.vocab_size == 100);
  CHECK(spec.weights.front().name == "language_model.model.embed_tokens.weight");
  CHECK(spec.weights.back().name == "language_model.lm_head.weight");
  CHECK(spec.weight(spec.layers[1].attention.qkv.weight).name ==
        "language_model.model.layers.1.self_attn.qkv_proj.weight");
}

TEST_CASE("a text part alone has its family's table, whatever tower stands beside it") {
  struct Row {
    const char *architecture, *type, *family;
  };
  const Row row = GENERATE(values<Row>({
      {"Gemma3nForConditionalGeneration", "gemma3n_text", "gemma3n"},
      {"Mistral3ForConditionalGeneration", "mistral", "mistral"},
      {"Qwen3VLForConditionalGeneration", "qwen3_vl_text", "qwen3"},
      {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", "qwen3_moe"},
      {"Qwen3_5ForConditionalGeneration", "qwen3_5_text", "qwen3_5"},
  }));
  INFO(row.architecture);
  const ModelSpec spec = make_model_spec({{"architectures", {row.architecture}},
                                          {"tie_word_embeddings", true},
                                          {"text_config", text_config(row.type)}});
  CHECK(spec.family == row.family);
  CHECK(spec.vision == nullptr);
  CHECK(spec.towers.empty());
  CHECK(spec.head == spec.embedding);
  CHECK_THAT(spec.vllm.refused, Catch::Contains("tower"));
  CHECK_THAT(spec.ignored_prefixes, Catch::VectorContains(std::string("model.visual.")));
  CHECK(
      refusal({{"architectures", {row.architecture}}, {"text_config", text_config("mistral4")}}) ==
      R"(config.json: "text_config.model_type" is "mistral4"; expected the name of a text model )"
      "that runs by itself, which this one does not yet");
}

TEST_CASE("a tower ends at the layer whose output is wanted") {
  const auto layers = [](const Json& feature) {
    Json config = llava_config();
    config["vision_feature_layer"] = feature;
    const ModelSpec spec = make_model_spec(config);
    return std::ranges::count_if(spec.towers, [](const WeightSpec& weight) {
      return weight.name.ends_with("layer_norm1.weight");
    });
  };
  CHECK(layers(nullptr) == 3);  // the default, -2
  CHECK(layers(-1) == 4);
  CHECK(layers(1) == 1);
  CHECK(layers({-2, -4, 2}) == 3);
  CHECK(!has_tower(make_model_spec(llava_config()),
                   "vision_tower.vision_model.post_layernorm.weight"));
}

TEST_CASE("features of several layers are projected side by side") {
  Json config = llava_config();
  const auto first = [&] {
    const ModelSpec spec = make_model_spec(config);
    return spec.towers[static_cast<size_t>(spec.vision->first.weight)].shape;
  };
  CHECK(first() == std::vector<int64_t>{32, 16});
  config["vision_feature_layer"] = {-2, -4, 2};
  CHECK(make_model_spec(config).vision->features == std::vector<int64_t>{3, 1, 2});
  CHECK(first() == std::vector<int64_t>{32, 3 * 16});
  config["vision_feature_layer"] = Json::array({-1});  // as a number alone
  CHECK(make_model_spec(config).vision->features.empty());
}

TEST_CASE("LLaVA leaves out its encoder's first row, whatever it is, or nothing") {
  Json config = llava_config();
  CHECK(make_model_spec(config).vision->first_row == 1);
  config["vision_feature_select_strategy"] = "full";
  CHECK(make_model_spec(config).vision->first_row == 0);
  config["vision_config"]["model_type"] = "siglip_vision_model";
  CHECK(make_model_spec(config).vision->first_row == 0);
  config["vision_feature_select_strategy"] = "default";
  CHECK(make_model_spec(config).vision->first_row == 1);
  config["vision_config"]["image_size"] = 14;
  CHECK(refusal(config).find("vision_feature_select_strategy") != std::string::npos);
}

TEST_CASE("Gemma 3 does not cap its head's logits where it sees images") {
  Json config = llava_config();
  config["architectures"] = {"Gemma3ForConditionalGeneration"};
  config["mm_tokens_per_image"] = 4;
  config["text_config"] = text_config("gemma3_text");
  config["text_config"]["final_logit_softcapping"] = 5.0;
  config["vision_config"]["model_type"] = "siglip_vision_model";
  CHECK(make_model_spec(config).final_soft_cap == 0);
}

TEST_CASE("LLaVA's projector has the config's activation") {
  Json config = llava_config();
  CHECK(make_model_spec(config).vision->activation == Activation::gelu);
  config["projector_hidden_act"] = "gelu_pytorch_tanh";
  CHECK(make_model_spec(config).vision->activation == Activation::gelu_tanh);
}

TEST_CASE("towers are found as transformers 5 spells them") {
  const auto prefixes = make_model_spec(llava_config()).tensor_prefixes;
  const std::pair<std::string, std::string> bare = {"vision_tower.vision_model.",
                                                    "model.vision_tower."};
  CHECK(std::ranges::find(prefixes, bare) != prefixes.end());
}

TEST_CASE("tying is read where each class keeps it") {
  const auto tied = [](Json config, const char* place, bool value) {
    (*place == '\0' ? config : config[place])["tie_word_embeddings"] = value;
    const ModelSpec spec = make_model_spec(config);
    return spec.head == spec.embedding;
  };
  CHECK(tied(llava_config(), "", true));
  CHECK(tied(llava_config(), "text_config", true));
  CHECK(!tied(llava_config(), "", false));
  CHECK(tied(internvl_config(), "", true));
  CHECK(tied(internvl_config(), "llm_config", true));
  Json gemma = llava_config();
  gemma["architectures"] = {"Gemma3ForConditionalGeneration"};
  gemma["text_config"] = text_config("gemma3_text");
  gemma["mm_tokens_per_image"] = 1;
  CHECK(!tied(gemma, "", false));
  CHECK(tied(gemma, "text_config", false));  // its class ties, whatever its text says
}

TEST_CASE("odd multimodal configs are refused by key") {
  struct Row {
    std::function<void(Json&)> change;
    std::string message;
  };
  const Row rows[] = {
      {[](Json& c) { c["vision_feature_layer"] = 5; }, "\"vision_feature_layer\" is 5"},
      {[](Json& c) { c["vision_feature_layer"] = -6; }, "one of the vision tower's 4 layers"},
      {[](Json& c) { c["vision_feature_layer"] = Json::array(); }, "a layer's number or a list"},
      {[](Json& c) { c["vision_feature_layer"] = {"x"}; }, "one of the vision tower's 4 layers"},
      {[](Json& c) { c["vision_config"]["hidden_size"] = 17; }, "a multiple of the 2 heads"},
      {[](Json& c) { c["vision_config"]["patch_size"] = 0; }, "\"vision_config.patch_size\" is 0"},
      {[](Json& c) { c["vision_config"]["image_size"] = 7; }, "at least patch_size (14)"},
      {[](Json& c) { c["vision_config"]["image_size"] = 30; }, "a multiple of patch_size"},
      {[](Json& c) { c["vision_config"]["model_type"] = "vit"; }, "clip_vision_model or siglip"},
      {[](Json& c) { c["vision_config"] = 7; }, "\"vision_config\" is 7; expected an object"},
      {[](Json& c) { c["text_config"]["model_type"] = "llava"; }, "\"text_config.model_type\""},
      {[](Json& c) { c["text_config"]["architectures"] = {"LlavaForConditionalGeneration"}; },
       "the name of a text model"},
  };
  for (const Row& row : rows) {
    Json config = llava_config();
    row.change(config);
    INFO(row.message);
    CHECK_THAT(refusal(config), Catch::Contains(row.message));
  }
  Json internvl = internvl_config();
  internvl["downsample_ratio"] = 2;
  CHECK_THAT(refusal(internvl), Catch::Contains("downsample_ratio"));
  internvl = internvl_config();
  internvl["select_layer"] = 2;
  CHECK_THAT(refusal(internvl), Catch::Contains("select_layer"));
  internvl = internvl_config();
  internvl["vision_config"]["norm_type"] = "batch_norm";
  CHECK_THAT(refusal(internvl), Catch::Contains("rms_norm or layer_norm"));
}

TEST_CASE("pixels are normalised as the image processor's configuration says") {
  const Json usual = {{"processor_class", "Qwen2_5_VLProcessor"},
                      {"image_mean", {0.48145466, 0.4578275, 0.40821073}},
                      {"image_std", {0.26862954, 0.26130258, 0.27577711}}};
  const auto norm = norm_of(usual);
  REQUIRE(norm.size() == 2);
  CHECK(norm[0].name == "visual.input_norm.weight");
  CHECK(norm[1].name == "visual.input_norm.bias");
  CHECK(norm[0].constant[0] == Approx(1 / (255 * 0.26862954)).epsilon(1e-7));
  CHECK(norm[1].constant[2] == Approx(-0.40821073 / 0.27577711).epsilon(1e-7));

  Json plain = usual;
  plain["do_normalize"] = plain["do_rescale"] = false;
  CHECK(norm_of(plain).empty());
  CHECK(norm_of(Json::object()).empty());
  plain["do_rescale"] = true;
  CHECK(norm_of(plain)[0].constant[1] == Approx(1.0 / 255).epsilon(1e-7));
  CHECK(norm_of(plain)[1].constant[1] == 0);
  for (const char* key : {"image_mean", "image_std"}) {
    for (const Json& odd : {Json(7), Json{1, 2}, Json{"a", "b", "c"}}) {
      Json file = usual;
      file[key] = odd;
      CHECK_THROWS_WITH(norm_of(file), Catch::Contains(key));
    }
  }
  Json zero = usual;
  zero["image_std"] = {0.5, 0, 0.5};
  CHECK_THROWS_WITH(norm_of(zero), Catch::Contains("other than 0"));
}

}  // namespace plimsoll::model
