// What a key of a config adds to a model's encoders, and encoders that no config spells out; by
// hand, in elements.
#include <catch2/catch.hpp>
#include <string>

#include "base/json.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm::tower_keys {
namespace {

constexpr int64_t kTextHidden = 64;  // of the language model

/// A model of the class, whose language model is tiny; `sight` is the rest of its config.
Json seeing_model(const std::string& architecture, const Json& sight) {
  Json language = {{"hidden_size", kTextHidden}, {"num_hidden_layers", 1},
                   {"num_attention_heads", 4},   {"num_key_value_heads", 4},
                   {"intermediate_size", 64},    {"vocab_size", 64},
                   {"model_type", "qwen2"}};
  Json config = language;
  if (!architecture.empty()) config["architectures"] = {architecture};
  config["text_config"] = std::move(language);
  config.merge_patch(sight);
  return config;
}

struct Counted {
  int64_t elements = 0;  // of two bytes
  int64_t buffers = 0;   // bytes
  std::string note;
};

Counted count(const Json& config, int64_t ranks = 1, const ShapeOptions& options = {}) {
  const Quantization plain;
  RankWeights weights(ranks, 2, plain);
  const ModelShape shape = build_shape(ConfigView(config, "tower"), options, weights);
  return {weights.part_bytes(Part::vision).value() / 2, weights.buffer_bytes().value(), shape.note};
}

constexpr int64_t dense(int64_t inputs, int64_t outputs) {
  return (inputs + 1) * outputs;
}

/// Attention, MLP, and two norms with biases.
constexpr int64_t layer(int64_t width, int64_t inner) {
  return 4 * dense(width, width) + dense(width, inner) + dense(inner, width) + 4 * width;
}

const Json kSiglip = {{"hidden_size", 32},
                      {"intermediate_size", 48},
                      {"num_hidden_layers", 5},
                      {"num_attention_heads", 2},
                      {"image_size", 28},
                      {"patch_size", 14},
                      {"model_type", "siglip_vision_model"}};
const Json kEars = {{"d_model", 32},         {"encoder_layers", 2},
                    {"encoder_ffn_dim", 48}, {"encoder_attention_heads", 2},
                    {"num_mel_bins", 80},    {"max_source_positions", 100}};
const Json kRadio = {
    {"vision_config",
     {{"patch_size", 16}, {"args", {{"model", "vit_small_patch16_224"}, {"cpe_max_size", 64}}}}},
    {"projector_hidden_size", 32}};
constexpr int64_t kRadioWidth = 384, kRadioPatch = 3 * 16 * 16;

}  // namespace

TEST_CASE("a key of a config adds to an encoder what its class builds for it") {
  const Json see = {{"vision_config", kSiglip}};
  const Json hear = {{"audio_config", kEars}, {"stack_factor", 2}};
  const Json project = {{"projector_config", {{"input_dim", 32}, {"n_embed", 48}}}};
  constexpr int64_t kMerged = dense(4 * 32, 48) + dense(48, 48);
  constexpr int64_t kLayer = layer(32, 48);
  const auto projected = [](const char* key, const Json& value) -> Json {
    return {{"projector_config", {{key, value}}}};
  };
  const auto radio = [](const char* key, const Json& value) -> Json {
    return {{"vision_config", {{"args", {{key, value}}}}}};
  };
  const Json teachers = {{{"name", "a"}}, {{"name", "b"}}, {{"name", "a"}}};
  const Json by_teacher = {
      {"vision_config", {{"args", {{"cls_token_per_teacher", true}, {"teachers", teachers}}}}}};
  Json registers = by_teacher;
  registers["vision_config"]["args"]["register_multiple"] = 8;
  struct Row {
    const char* architecture;
    Json config, change;
    int64_t elements;
  };
  const Row rows[] = {
      {"DeepseekVLV2ForCausalLM", project, projected("projector_type", "linear"),
       dense(32, 48) - kMerged},
      {"DeepseekVLV2ForCausalLM", project, projected("mlp_ratio", 3),
       dense(4 * 32, 144) + dense(144, 48) - kMerged},
      {"DeepseekVLV2ForCausalLM", project, projected("depth", 4), 2 * dense(48, 48)},
      {"DeepseekVLV2ForCausalLM", project, projected("depth", 1), 0},
      {"DeepseekVLV2ForCausalLM", project, projected("downsample_ratio", 3), 5 * 32 * 48},
      // Frames in pairs have an embedding of their own; predicting layers come with a norm.
      {"NemotronH_Nano_VL_V2",
       kRadio,
       {{"vision_config", {{"video_temporal_patch_size", 2}}}},
       2 * kRadioPatch * kRadioWidth},
      {"NemotronH_Nano_VL_V2",
       kRadio,
       {{"text_config", {{"num_nextn_predict_layers", 1}}}},
       2 * kRadioWidth},
      {"NemotronH_Nano_VL_V2", kRadio, radio("teachers", teachers), 0},
      {"NemotronH_Nano_VL_V2", kRadio, by_teacher, kRadioWidth},  // two names
      {"NemotronH_Nano_VL_V2", kRadio, radio("register_multiple", 8), 7 * kRadioWidth},
      {"NemotronH_Nano_VL_V2", kRadio, registers, 7 * kRadioWidth},
      {"Lfm2VlForConditionalGeneration",
       {{"vision_config", {{"hidden_size", 24}}}},
       {{"projector_use_layernorm", false}},
       -2 * 4 * 24},
      {"UltravoxModel",
       hear,
       {{"projector_act", "gelu"}},
       32 * kTextHidden},  // no half of it gates
      {"UltravoxModel", hear, {{"projector_ln_mid", true}}, 32 - kTextHidden},
      {"LlavaForConditionalGeneration", see, {{"vision_feature_layer", -1}}, kLayer},
      {"LlavaForConditionalGeneration", see, {{"vision_feature_layer", -4}}, -2 * kLayer},
      {"LlavaForConditionalGeneration", see, {{"vision_feature_layer", 3}}, -kLayer},
      {"LlavaForConditionalGeneration", see, {{"vision_feature_layer", 99}}, kLayer},
      // Features of two layers stand side by side, up to the later one.
      {"LlavaForConditionalGeneration", see, {{"vision_feature_layer", {-2, 1}}}, 32 * kTextHidden},
      {"LlavaForConditionalGeneration",
       see,
       {{"vision_feature_layer", {2, -1}}},
       kLayer + 32 * kTextHidden},
      {"Step3p7ForConditionalGeneration",
       {{"vision_config", {{"width", 32}, {"layers", 3}, {"heads", 2}}}},
       {{"vision_config", {{"ls_init_value", 0.1}}}},
       3 * 2 * 32},
      {"Gemma4UnifiedForConditionalGeneration",
       see,
       {{"audio_config", {{"hidden_size", 24}}}},
       24 * kTextHidden},
      // One norms patches before they are merged, four at a time, the other after that.
      {"Ernie4_5_VLMoeForConditionalGeneration",
       {{"vision_config",
         {{"depth", 2}, {"hidden_size", 32}, {"num_heads", 2}, {"mlp_ratio", 2.0}}}},
       {{"vision_config", {{"mlp_ratio", 3.0}}}},
       2 * (2 * 32 * 32 + 32)},
  };
  for (const Row& row : rows) {
    INFO(row.architecture << " " << row.change.dump());
    const Json config = seeing_model(row.architecture, row.config);
    Json changed = config;
    changed.merge_patch(row.change);
    CHECK(count(changed).elements - count(config).elements == row.elements);
  }
}

TEST_CASE("models that vLLM does not run have the encoders of their published parts") {
  constexpr int64_t kWidth = 1152, kInner = 4304;
  // SigLIP so400m, whole: layers, patches of 14, positions, the last norm.
  const auto so400m = [](int64_t layers, int64_t positions) {
    return layers * layer(kWidth, kInner) + dense(3 * 14 * 14, kWidth) + positions * kWidth +
           2 * kWidth;
  };
  // A pooling head; six layers of 128 latents, with norms; a projection.
  constexpr int64_t kPerceiver =
      6 * (4 * kWidth * 1536 + 8 * kWidth * kWidth + 6 * kWidth) + 128 * kWidth;
  const int64_t xgen = so400m(27, 729) + 4 * kWidth * kWidth + 2 * kWidth * kInner + kPerceiver +
                       dense(kWidth, kTextHidden);
  // Four patches become one: a norm, two layers.
  const int64_t locate = so400m(27, 64 * 64) + 2 * 4 * kWidth + dense(4 * kWidth, kTextHidden) +
                         dense(kTextHidden, kTextHidden);
  // Queries that attend to what the encoder sees: four matrices, norms, a projection.
  const auto llama3v = [&](int64_t queries) {
    return so400m(27, 70 * 70) + 4 * dense(kTextHidden, kTextHidden) + 6 * kTextHidden +
           kTextHidden * kTextHidden + queries * kTextHidden + kWidth * kTextHidden;
  };
  struct Row {
    const char* architecture;
    Json config;
    int64_t elements;
  };
  const Row rows[] = {{"XGenMMModelForConditionalGeneration", Json::object(), xgen},
                      {"LocateAnythingForConditionalGeneration", Json::object(), locate},
                      {"", {{"model_type", "llama3v"}}, llama3v(96)},
                      {"", {{"model_type", "llama3v"}, {"query_num", 8}}, llama3v(8)}};
  for (const Row& row : rows) {
    INFO(row.architecture << row.config.dump());
    const Json config = seeing_model(row.architecture, row.config);
    const Counted counted = count(config);
    CHECK(counted.elements == row.elements);
    CHECK(counted.note.find("that vLLM does not run") != std::string::npos);
    ShapeOptions blind;
    blind.absent = {"image", "video"};
    CHECK(count(config, 1, blind).elements == row.elements);
  }
}

TEST_CASE("C-RADIO's attention is whole where ranks do not divide its heads") {
  constexpr int64_t kWidth = 384, kInner = 1536, kLayers = 12, kRanks = 4;  // six heads
  constexpr int64_t kMlp = 2 * kWidth * kInner / kRanks + kInner / kRanks + kWidth;
  constexpr int64_t kLayer = 4 * dense(kWidth, kWidth) + kMlp + 4 * kWidth + 2 * kWidth;
  // Patches, 4 x 4 positions, one class; squares of four patches with a norm, two projections.
  constexpr int64_t kEnds = kRadioPatch * kWidth + 16 * kWidth + kWidth;
  constexpr int64_t kProjector = 4 * kWidth + 4 * kWidth * 32 + 32 * kTextHidden;
  const Json config = seeing_model("NemotronH_Nano_VL_V2", kRadio);
  CHECK(count(config, kRanks).elements == kLayers * kLayer + kEnds + kProjector);
  const auto named = [&](const char* name) {
    Json other = config;
    other["vision_config"]["args"]["model"] = name;
    return count(other).elements;
  };
  CHECK(named("vit_of_tomorrow") == named("vit_huge_patch16_224"));
  CHECK(named("vit_huge_patch16_224") > named("vit_large_patch16_224"));
  Json taught = config;  // a number of each teacher that has a summary
  taught["vision_config"]["args"]["teachers"] = {{{"name", "a"}, {"use_summary", false}},
                                                 {{"name", "b"}, {"use_summary", true}},
                                                 {{"name", "c"}}};
  CHECK(count(taught).buffers - count(config).buffers == 2 * 8);
  Json hears = config;
  CHECK(count(hears).note.empty());
  hears["sound_config"] = {{"hidden_size", 32}};
  CHECK(count(hears).note.find("encoder of sound is not known") != std::string::npos);
}

TEST_CASE("MiniCPM-V's resampler projects what has another width than the language model") {
  const auto elements = [](int64_t width, const Json& sight) {
    Json vision = {{"hidden_size", width},     {"intermediate_size", 48}, {"num_hidden_layers", 3},
                   {"num_attention_heads", 2}, {"image_size", 28},        {"patch_size", 14}};
    Json config = {{"version", 2.6}, {"query_num", 10}, {"vision_config", std::move(vision)}};
    config.update(sight);
    return count(seeing_model("MiniCPMV", config)).elements;
  };
  const auto encoder = [](int64_t width, int64_t layers) {
    return layers * layer(width, 48) + dense(3 * 14 * 14, width) + 4 * width + 2 * width;
  };
  constexpr int64_t kResampler = 10 * kTextHidden + kTextHidden * kTextHidden +
                                 dense(kTextHidden, 3 * kTextHidden) +
                                 dense(kTextHidden, kTextHidden) + 3 * 2 * kTextHidden;
  CHECK(elements(kTextHidden, Json::object()) == encoder(kTextHidden, 2) + kResampler);
  CHECK(elements(32, Json::object()) == encoder(32, 2) + kResampler + 32 * kTextHidden);
  CHECK(elements(32, {{"drop_vision_last_layer", false}}) ==
        encoder(32, 3) + kResampler + 32 * kTextHidden);
}

TEST_CASE("an encoder is the same where its config states what is usual, or stands deeper") {
  struct Row {
    const char* architecture;
    Json config, same;
  };
  const Json moon = {{"hidden_size", 32}, {"num_hidden_layers", 2}, {"num_attention_heads", 2}};
  Json merged = moon;
  merged["merge_kernel_size"] = {2, 2};
  const Json latents = {
      {"kv_lora_rank", 16},       {"q_lora_rank", 16},     {"qk_nope_head_dim", 8},
      {"qk_rope_head_dim", 8},    {"v_head_dim", 8},       {"n_routed_experts", 4},
      {"num_experts_per_tok", 2}, {"n_shared_experts", 1}, {"moe_intermediate_size", 32}};
  const Json ears = {{"audio_config", kEars}};
  const Json language = seeing_model("", Json::object())["text_config"];
  const Row rows[] = {
      {"KimiVLForConditionalGeneration",
       {{"vision_config", moon}, {"text_config", latents}},
       {{"vision_config", merged}, {"text_config", latents}}},
      {"Qwen3ASRForConditionalGeneration",
       ears,
       {{"thinker_config", {{"audio_config", kEars}, {"text_config", language}}}}},
      {"Molmo2ForConditionalGeneration",
       {{"vit_config", {{"num_hidden_layers", 12}, {"hidden_size", 32}}}},
       {{"vit_config", {{"num_hidden_layers", 12}, {"hidden_size", 32}}},
        {"adapter_config", {{"vit_layers", {-3, -9}}}}}},
      {"AriaForConditionalGeneration",
       {{"vision_config", kSiglip}},
       {{"vision_config", kSiglip}, {"vision_feature_layer", -1}}},
  };
  for (const Row& row : rows) {
    INFO(row.architecture);
    const int64_t elements = count(seeing_model(row.architecture, row.config)).elements;
    CHECK(elements > 0);
    CHECK(count(seeing_model(row.architecture, row.same)).elements == elements);
  }
  // Nearer the end, one layer more or less.
  const auto aria = [&](int64_t feature) {
    const Json config = {{"vision_config", kSiglip}, {"vision_feature_layer", feature}};
    return count(seeing_model("AriaForConditionalGeneration", config)).elements;
  };
  CHECK(aria(-1) - aria(-3) == 2 * layer(32, 48));
  const auto molmo = [](const Json& read) {
    const Json config = {{"vit_config",
                          {{"num_hidden_layers", 12},
                           {"hidden_size", 32},
                           {"intermediate_size", 48},
                           {"num_attention_heads", 2}}},
                         {"adapter_config", {{"vit_layers", read}}}};
    return count(seeing_model("Molmo2ForConditionalGeneration", config)).elements;
  };
  CHECK(molmo({-1, -9}) - molmo({-3, -9}) == 2 * layer(32, 48));
  CHECK(molmo({-9, -3}) == molmo({-3, -9}));
  CHECK(molmo({4, 9}) == molmo({-3, -9}));
  // Keye's norm stands before four patches are merged, Keye 1.5's behind that.
  const Json keye = {{"vision_config", kSiglip}};
  CHECK(count(seeing_model("KeyeVL1_5ForConditionalGeneration", keye)).elements -
            count(seeing_model("KeyeForConditionalGeneration", keye)).elements ==
        2 * 3 * 32);
}

}  // namespace plimsoll::vllm::tower_keys
