// The largest clips of sound, and what vLLM profiles its encoders with: figures by hand from the
// processing infos of vllm/model_executor/models.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/shapes/model_shape.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

constexpr int64_t kHidden = 64;               // of the language model
constexpr int64_t kWidth = 3 * 32 + 2 * 128;  // elements of a row of the encoder at its peak
constexpr int64_t kClip = 30 * 100 * 128;     // a clip's spectrogram: 100 frames a second

/// A launch of a model whose encoder and language model are tiny.
struct Hearing {
  Json config;
  EngineArgs args;
  EngineLimits limits{8, 8192, 0.9};
  int64_t length = 4096;
  ShapeOptions options;

  explicit Hearing(const char* architecture, const Json& settings = Json::object()) {
    config = {{"hidden_size", kHidden},   {"num_hidden_layers", 1},  {"num_attention_heads", 4},
              {"num_key_value_heads", 4}, {"intermediate_size", 64}, {"vocab_size", 64},
              {"model_type", "qwen2"}};
    Json audio = {{"num_mel_bins", 128},
                  {"max_source_positions", 1500},
                  {"encoder_layers", 1},
                  {"num_hidden_layers", 1},
                  {"d_model", 32},
                  {"hidden_size", 32},
                  {"encoder_ffn_dim", 128},
                  {"intermediate_size", 128},
                  {"encoder_attention_heads", 2},
                  {"num_attention_heads", 2}};
    audio.update(settings);
    Json whole = config;
    whole["architectures"] = {architecture};
    whole["text_config"] = config;
    whole["audio_config"] = audio;
    config = std::move(whole);
    release({0, 33, 0});
  }
  void release(VllmVersion version) { args.version = options.version = version; }
  [[nodiscard]] EncoderMemory memory() const {
    const Quantization plain;
    RankWeights weights(1, 2, plain);
    const ModelShape shape = build_shape(ConfigView(config, "hearing"), options, weights);
    return encoder_memory(args, limits, shape, 2, length);
  }
};

using Tokens = std::vector<std::pair<std::string, int64_t>>;

}  // namespace

TEST_CASE("clips of 30 seconds have the tokens that the model's processor counts") {
  struct Row {
    const char* architecture;
    int64_t tokens, items, clips, rows;  // clips of an item, rows of a clip
  };
  const Row rows[] = {
      // 3000 frames, halved by the convolution and by the pooling; items: 8192 / 750.
      {"Qwen2AudioForConditionalGeneration", 750, 10, 1, 1500},
      // Ten minutes of them in a clip; a cache of 15000 tokens holds one.
      {"AudioFlamingo3ForConditionalGeneration", 20 * 750, 1, 20, 1500},
      // 655 seconds are 21 whole windows; four positions are a token.
      {"GlmAsrForConditionalGeneration", 21 * (1500 / 4), 1, 21, 1500},
      // 16 windows; 1500 positions are padded to 188 stacks of 8.
      {"UltravoxModel", 16 * 188, 2, 16, 1500},
  };
  for (const Row& row : rows) {
    INFO(row.architecture);
    const Hearing hearing(row.architecture);
    const EncoderMemory memory = hearing.memory();
    CHECK(memory.tokens == Tokens{{"audio", row.tokens}});
    CHECK(memory.budget_tokens == std::max<int64_t>(8192, row.tokens));
    CHECK(memory.items == row.items);
    CHECK(memory.tokens_per_item == row.tokens);
    CHECK(memory.input_elements == row.clips * kClip);
    CHECK(memory.kept == row.items * (row.tokens * kHidden + row.clips * kClip) * 2);
    // Ultravox brings 16 windows at once to its encoder.
    const int64_t together = std::string(row.architecture) == "UltravoxModel" ? 1 : row.items;
    CHECK(memory.peak == together * row.clips * row.rows * kWidth * 2);
  }
}

TEST_CASE("a clip of Voxtral fills the context, in pieces of 30 seconds") {
  Hearing voxtral("VoxtralForConditionalGeneration", {{"downsample_factor", 4}});
  voxtral.length = 32768;
  const EncoderMemory memory = voxtral.memory();
  CHECK(memory.tokens == Tokens{{"audio", 32768}});
  CHECK(memory.budget_tokens == 32768);
  CHECK(memory.items == 1);
  // 32768 tokens of 1280 samples (16000 / 12.5 a second) are 87.4 pieces of 480000 samples.
  CHECK(memory.tokens_per_item == 88 * 375);
  CHECK(memory.input_elements == 88 * 480'000);
  CHECK(memory.kept == (88 * 375 * kHidden + 88 * 480'000) * 2);
  CHECK(memory.peak == 88 * 1500 * kWidth * 2);

  // A limit's length makes the dummy shorter, not the cache.
  voxtral.args.limits["audio"] = {.count = 1, .samples = 480'001};
  CHECK(voxtral.memory().budget_tokens == 32768);
  CHECK(voxtral.memory().tokens_per_item == 2 * 375);
  voxtral.args.limits.clear();

  voxtral.length = 375;  // one piece to the sample, and one sample more
  CHECK(voxtral.memory().tokens_per_item == 375);
  voxtral.length = 376;
  CHECK(voxtral.memory().tokens_per_item == 2 * 375);
  CHECK(voxtral.memory().items == 8);  // one of each sequence; the budget would hold 21
}

TEST_CASE("a clip of Granite Speech has 500 seconds, and a request one") {
  Hearing granite("GraniteSpeechForConditionalGeneration");
  granite.config["encoder_config"] = {{"hidden_dim", 32},
                                      {"num_layers", 1},
                                      {"num_heads", 2},
                                      {"dim_head", 16},
                                      {"input_dim", 160}};
  granite.config["projector_config"] = {{"hidden_size", 48},
                                        {"num_hidden_layers", 1},
                                        {"num_attention_heads", 2},
                                        {"intermediate_size", 64}};
  granite.length = 16384;
  const EncoderMemory memory = granite.memory();
  // 50,001 steps of 10 ms, two of which are a row; three tokens of each 15 rows.
  CHECK(memory.tokens == Tokens{{"audio", 5001}});
  CHECK(memory.input_elements == 25'000 * 160);
  CHECK(memory.items == 1);  // 8192 / 5001
  CHECK(memory.peak == 25'000 * kWidth * 2);
  granite.limits.max_num_batched_tokens = 20'000;
  CHECK(granite.memory().items == 3);  // the budget's, of three sequences
}

TEST_CASE("Qwen3's clips have 13 tokens a second, and are folded in pieces of a second") {
  const Json ears = {{"n_window", 50}, {"conv_chunksize", 500}, {"downsample_hidden_size", 480}};
  Hearing hearing("Qwen3ASRForConditionalGeneration", ears);
  const EncoderMemory memory = hearing.memory();
  constexpr int64_t kTokens = 30 * 13;  // 100 frames: 50, 25, 13
  CHECK(memory.tokens == Tokens{{"audio", kTokens}});
  CHECK(memory.items == 8192 / kTokens);
  CHECK(memory.kept == 21 * (kTokens * kHidden + kClip) * 2);
  // 500 of 21 x 30 pieces at once; half of 128 pitches and of 100 frames, before and behind GELU.
  constexpr int64_t kPiece = 480 * 64 * 50;
  CHECK(memory.peak == 2 * 500 * kPiece * 2);
  hearing.limits.max_num_batched_tokens = 2 * kTokens;
  CHECK(hearing.memory().peak == 2 * 2 * 30 * kPiece * 2);
  // A narrow convolution takes less than the rows of a wide encoder.
  hearing.config["audio_config"]["downsample_hidden_size"] = 1;
  hearing.config["audio_config"]["encoder_ffn_dim"] = 1024;
  CHECK(hearing.memory().peak == 2 * kTokens * (3 * 32 + 2 * 1024) * 2);
}

TEST_CASE("the omni models count sound from 0.17 on, by Qwen2-Audio's rule") {
  for (const char* architecture :
       {"Qwen3OmniMoeForConditionalGeneration", "Qwen2_5OmniForConditionalGeneration"}) {
    INFO(architecture);
    const bool third = architecture[4] == '3';
    Hearing hearing(architecture, {{"n_window", 50}});
    hearing.config["text_config"].update(
        {{"num_experts", 2}, {"num_experts_per_tok", 1}, {"moe_intermediate_size", 64}});
    hearing.options.absent = {"image", "video"};
    hearing.args.limits = {{"image", {}}, {"video", {}}};
    hearing.release({0, 17, 0});
    CHECK(hearing.memory().tokens == Tokens{{"audio", 750}});
    CHECK(hearing.memory().items == 8192 / 750);
    CHECK(hearing.memory().tokens_per_item == (third ? 390 : 750));  // what the encoder makes
    hearing.release({0, 16, 0});
    CHECK(hearing.memory().tokens.empty());
  }
}

TEST_CASE("requests of AudioFlamingo3 had any number of clips in some releases") {
  Hearing hearing("AudioFlamingo3ForConditionalGeneration");
  hearing.limits = {2, 60'000, 0.9};
  hearing.length = 32768;  // holds two clips of 15000 tokens
  struct Row {
    VllmVersion version;
    int64_t items;
  };
  const Row rows[] = {{{0, 14, 1}, 4}, {{0, 16, 0}, 2}, {{0, 18, 1}, 2}, {{0, 19, 0}, 4},
                      {{0, 23, 0}, 4}, {{0, 24, 0}, 2}, {{0, 33, 0}, 2}};
  for (const Row& row : rows) {
    INFO(version_text(row.version));
    hearing.release(row.version);
    CHECK(hearing.memory().items == row.items);
  }
}
