// Image encoders: what configs say of their images, and weights by hand.
#include <catch2/catch.hpp>

#include "base/json.h"
#include "vllm/items/item_sizes.h"
#include "vllm/shapes/model_shape.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

/// A model of the class, whose language model is tiny; `sight` is the rest of its config.
Json seeing(const char* architecture, const Json& sight) {
  Json language = {{"hidden_size", 64},        {"num_hidden_layers", 1},
                   {"num_attention_heads", 4}, {"num_key_value_heads", 4},
                   {"intermediate_size", 64},  {"vocab_size", 64},
                   {"model_type", "qwen2"}};
  Json config = language;
  config["architectures"] = {architecture};
  config["text_config"] = std::move(language);
  config.update(sight);
  return config;
}

struct Seen {
  ModelShape shape;
  Amount bytes;
};

Seen shape_of(const Json& config) {
  const Quantization plain;
  RankWeights weights(1, 2, plain);
  ModelShape shape = build_shape(ConfigView(config, "tower"), {}, weights);
  return {std::move(shape), weights.part_bytes(Part::vision)};
}

}  // namespace

TEST_CASE("an image smaller than a processor's least is scaled up to it") {
  struct Row {
    const char* architecture;
    int64_t rows, tokens;  // of the encoder, of the language model
  };
  const Row rows[] = {{"DotsOCRForCausalLM", 4 * 4, 4},
                      {"PaddleOCRVLForConditionalGeneration", 28 * 28, 196},
                      {"Qwen2VLForConditionalGeneration", 4 * 4, 4},
                      {"Qwen3VLForConditionalGeneration", 16 * 16, 64},
                      {"Glm4vForConditionalGeneration", 6 * 6, 9}};  // of two frames together
  for (const Row& row : rows) {
    INFO(row.architecture);
    EngineArgs args;
    args.limits["image"] = {1, 28, 28};
    const Json config = seeing(row.architecture, {{"vision_config", Json::object()}});
    const LargestItem item = profiled_image(shape_of(config).shape.vision, args);
    CHECK(item.rows == row.rows);
    CHECK(item.tokens == row.tokens);
  }
}

TEST_CASE("MiniCPM-V's slices have the patches of the config") {
  for (const int64_t patch : {14, 16}) {
    const Json sight = {{"version", 2.6},
                        {"image_size", 448},
                        {"query_num", 64},
                        {"vision_config", {{"patch_size", patch}, {"image_size", 980}}}};
    const LargestItem item = largest_image(shape_of(seeing("MiniCPMV", sight)).shape.vision, {});
    CHECK(item.tokens == 10 * 64);  // nine slices and the whole
    CHECK(item.rows == 10 * (448 / patch) * (448 / patch));
  }
}

TEST_CASE("InternViT has no layers behind the one that is selected, counted from the end") {
  constexpr int64_t kWidth = 64, kInner = 128, kLayers = 5;
  struct Row {
    const char* architecture;
    int64_t heads;  // of 16 each, those without weights of their own too
  };
  for (const Row& row : {Row{"InternVLChatModel", 4}, Row{"H2OVLChatModel", 4},
                         Row{"SkyworkR1VChatModel", 4}, Row{"NVLM_D", 4 + 7}}) {
    INFO(row.architecture);
    const int64_t attended = row.heads * 16;
    // Attention, its biases, the MLP, its biases, two norms and two scales.
    const int64_t layer = 4 * kWidth * attended + 3 * attended + kWidth + 2 * kWidth * kInner +
                          kInner + kWidth + 4 * kWidth + 2 * kWidth;
    const auto bytes = [&](const Json& selected) {
      Json sight = {{"vision_config",
                     {{"hidden_size", kWidth},
                      {"intermediate_size", kInner},
                      {"num_hidden_layers", kLayers},
                      {"num_attention_heads", 4},
                      {"image_size", 28},
                      {"patch_size", 14},
                      {"qkv_bias", true},
                      {"qk_normalization", false},
                      {"norm_type", "layer_norm"}}}};
      if (!selected.is_null()) sight["select_layer"] = selected;
      return shape_of(seeing(row.architecture, sight)).bytes;
    };
    const Amount whole = bytes(nullptr);
    CHECK(whole > Amount{2} * kLayers * layer);
    CHECK(bytes(-1) == whole);
    for (const int64_t behind : {1, 2, 4, 5}) {
      INFO(behind);
      CHECK(bytes(-1 - behind) + Amount{2} * behind * layer == whole);
      CHECK(bytes(kLayers - 1 - behind) == (behind < kLayers ? bytes(-1 - behind) : whole));
    }
  }
}

TEST_CASE("Logics has a SigLIP, the ConvNeXt-XXL of CLIP and a projector") {
  // A layer: attention, its biases, the MLP, its biases, two norms.
  constexpr int64_t kWidth = 1152, kInner = 4304;
  constexpr int64_t kLayer =
      4 * kWidth * kWidth + 4 * kWidth + 2 * kWidth * kInner + kInner + kWidth + 4 * kWidth;
  constexpr int64_t kSiglip = 26 * kLayer + (3 * 14 * 14 + 1) * kWidth + 729 * kWidth + 2 * kWidth;
  constexpr int64_t kConvNext = 846'544'768;  // open_clip: 846.54 million
  constexpr int64_t kProjector = (4224 + 64 + 2) * 64;
  const Json sight = {{"mm_hidden_size", 4224}};
  CHECK(shape_of(seeing("LogicsForConditionalGeneration", sight)).bytes ==
        Amount{2} * (kSiglip + kConvNext + kProjector));
}

TEST_CASE("a clip of 30 seconds has a token for each few positions of its encoder") {
  struct Row {
    const char* architecture;
    Json sight;
    int64_t tokens;
  };
  const Json ears = {{"audio_config", {{"max_source_positions", 1500}, {"num_mel_bins", 80}}}};
  Json whisper = {{"text_config", nullptr},       {"d_model", 64},         {"encoder_layers", 1},
                  {"encoder_attention_heads", 4}, {"encoder_ffn_dim", 64}, {"decoder_layers", 1},
                  {"decoder_attention_heads", 4}, {"decoder_ffn_dim", 64}};
  whisper.update(ears["audio_config"]);
  const auto together = [&](int64_t factor) {
    Json sight = ears;
    sight["audio_config"]["downsample_factor"] = factor;
    return sight;
  };
  const Row rows[] = {
      {"WhisperForConditionalGeneration", whisper, 1500},
      {"Qwen2AudioForConditionalGeneration", ears, 1500 / 2},
      {"Qwen2_5OmniForConditionalGeneration", ears, 1500 / 2},
      {"VoxtralForConditionalGeneration", ears, 1500 / 4},  // 12.5 tokens a second
      {"VoxtralForConditionalGeneration", together(2), 1500 / 2},
      {"VoxtralForConditionalGeneration", together(10), 1500 / 10},
  };
  for (const Row& row : rows) {
    INFO(row.architecture << " " << row.sight.dump());
    const SoundShape sound = shape_of(seeing(row.architecture, row.sight)).shape.sound;
    CHECK(sound.tokens == row.tokens);
    CHECK(sound.rows == 1500);
    // Frames of 10 ms; Voxtral's encoder takes samples.
    CHECK(sound.elements == 3000 * (sound.fills_context ? 160 : 80));
  }
}

TEST_CASE("videos of volumes fill the context to the last token, and have the frames of a limit") {
  VisionShape vision;
  vision.kind = VisionShape::Kind::pixel_volume;
  vision.video = VisionShape::Video::volume;
  vision.patch = 14;
  vision.merge = 2;
  vision.temporal_patch = 2;
  vision.default_min_pixels = vision.video_min_pixels = 28 * 28;
  vision.default_max_pixels = 28 * 28 * 128;
  vision.video_max_pixels = 28 * 28 * 1024;
  vision.most_frames = 16;
  EngineArgs args;
  args.limits["image"] = {};  // or a request's image is counted beside
  const int64_t most = largest_video(vision, args, 1 << 20).tokens;
  CHECK(most > 0);
  CHECK(largest_video(vision, args, most).tokens == most);
  CHECK(largest_video(vision, args, most - 1).tokens < most);
  const int64_t rows = profiled_video(vision, args, 1 << 20).rows;
  args.limits["video"] = {.count = 1, .frames = 4};
  const int64_t limited = profiled_video(vision, args, 1 << 20).rows;
  CHECK(limited < rows);
  args.limits.erase("video");
  vision.most_frames = 4;
  CHECK(profiled_video(vision, args, 1 << 20).rows == limited);
}
