// What vLLM's profile of an encoder takes, by hand.
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/items/item_sizes.h"

namespace plimsoll::plan {

using namespace vllm;
namespace {

/// An image is 28 pixels wide and high, four rows of the tower and 100 tokens.
struct Profile {
  EngineArgs args;
  EngineLimits limits{8, 1000, 0.9};
  ModelShape shape;
  int64_t length = 4096;

  Profile() {
    shape.multimodal = true;
    shape.hidden = 64;
    shape.vision.kind = VisionShape::Kind::fixed_tokens;
    shape.vision.image_size = 28;
    shape.vision.tokens_per_image = 100;
    shape.vision.tower = {32, 128, false};
  }
  [[nodiscard]] EncoderMemory memory() const {
    return encoder_memory(args, limits, shape, 2, length);
  }
};

struct ProfileRow {
  const char* name;
  std::function<void(Profile&)> change;
  int64_t items, kept, peak;
};

}  // namespace

TEST_CASE("an encoder's batch keeps outputs and inputs, and its rows take a peak") {
  constexpr int64_t kOutput = 100 * 64 * 2, kInput = 3 * 28 * 28 * 2;  // bytes of an image
  constexpr int64_t kRows = 4 * (3 * 32 + 2 * 128) * 2;
  const ProfileRow rows[] = {
      {"as many as a step has tokens for", [](Profile&) {}, 10, 10 * (kOutput + kInput),
       10 * kRows},
      {"as many as the sequences ask for",
       [](Profile& p) { p.limits.max_num_seqs = 1, p.args.limits["image"] = {3}; }, 3,
       3 * (kOutput + kInput), 3 * kRows},
      {"as many as the contexts hold",
       [](Profile& p) { p.limits.max_num_seqs = 2, p.length = 250; }, 4, 4 * (kOutput + kInput),
       4 * kRows},
      {"one that is longer than a context",
       [](Profile& p) { p.limits.max_num_seqs = 2, p.length = 50; }, 2, 2 * (kOutput + kInput),
       2 * kRows},
      {"as many as the model takes",
       [](Profile& p) { p.limits.max_num_seqs = 1, p.shape.vision.most_images = 2; }, 2,
       2 * (kOutput + kInput), 2 * kRows},
      {"one that is longer than a step", [](Profile& p) { p.limits.max_num_batched_tokens = 50; },
       1, kOutput + kInput, kRows},
      {"a gate beside the MLP", [](Profile& p) { p.shape.vision.tower.gated = true; }, 10,
       10 * (kOutput + kInput), 10 * 4 * (2 * 32 + 3 * 128) * 2},
      {"outputs of two deeper layers, and their room in a step",
       [](Profile& p) { p.shape.vision.deep_levels = 2; }, 10,
       10 * (3 * kOutput + kInput) + 2 * 1000 * 64 * 2, 10 * kRows},
      {"bytes that are normalized on the device",
       [](Profile& p) {
         p.shape.vision.bytes_on_device = true, p.args.version = {0, 28, 0};
       },
       10, 10 * (kOutput + kInput / 2), 10 * (kRows + kInput)},
      {"which came with 0.28",
       [](Profile& p) {
         p.shape.vision.bytes_on_device = true, p.args.version = {0, 27, 1};
       },
       10, 10 * (kOutput + kInput), 10 * kRows},
      {"no profile",
       [](Profile& p) { p.shape.vision.deep_levels = 2, p.args.skip_mm_profiling = true; }, 0,
       2 * 1000 * 64 * 2, 0},
      {"no images", [](Profile& p) { p.args.limits["image"] = {}; }, 0, 0, 0},
      {"text alone", [](Profile& p) { p.args.language_only = true; }, 0, 0, 0},
  };
  for (const ProfileRow& row : rows) {
    INFO(row.name);
    Profile profile;
    row.change(profile);
    const EncoderMemory memory = profile.memory();
    CHECK(memory.items == row.items);
    CHECK(memory.kept == row.kept);
    CHECK(memory.peak == row.peak);
  }
}

TEST_CASE("outputs, and pixels that are normalized on the device, may not be there at the peak") {
  constexpr int64_t kOutput = 100 * 64 * 2, kPixels = 3 * 28 * 28;  // of each of ten images
  Profile profile;
  CHECK(profile.memory().passing == 10 * kOutput);
  profile.shape.vision.bytes_on_device = true;
  profile.args.version = {0, 28, 0};
  CHECK(profile.memory().passing == 10 * (kOutput + kPixels * 2));
}

TEST_CASE("an encoder's note names its items, and is empty without one") {
  Profile profile;
  CHECK(encoder_note(profile.memory()) ==
        "largest item: image 100 tokens; encoder cache of 1000 tokens, profiled with 10 image "
        "item(s)");
  profile.shape.sound = {{}, 1500, 10, 10, 0};
  CHECK(encoder_note(profile.memory()) ==
        "largest item: audio 1500 tokens, image 100 tokens; encoder cache of 1500 tokens, profiled "
        "with 1 audio item(s)");
  profile.args.language_only = true;
  CHECK(encoder_note(profile.memory()) == "");
}

TEST_CASE("items of Muse have sizes of their own") {
  const auto config = parse_json<Json>(R"({"architectures": ["MuseGlimmerForConditionalGeneration"],
    "vision_config": {"patch_size": 14, "vision_encoder": {}}, "text_config": {
      "model_type": "muse_glimmer_text", "hidden_size": 64, "num_hidden_layers": 1, "head_dim": 16,
      "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 64,
      "vocab_size": 64}})");
  const Quantization plain;
  RankWeights weights(1, 2, plain);
  const ModelShape shape = build_shape(ConfigView(config, "muse"), {}, weights);
  const EncoderMemory memory = encoder_memory({}, {8, 8192, 0.9}, shape, 2, 65536);
  const std::map<std::string, int64_t> tokens(memory.tokens.begin(), memory.tokens.end());
  CHECK(tokens == std::map<std::string, int64_t>{{"image", 4096}, {"video", 48 * 144}});
  CHECK(largest_video(shape.vision, {}, 65536).rows == 48 * 144 * 4);  // merged by squares of 2
}

}  // namespace plimsoll::plan
