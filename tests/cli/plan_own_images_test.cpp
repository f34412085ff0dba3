// `plan --engine plimsoll` of models that see: room for embeddings, images and videos.
#include <catch2/catch.hpp>

#include "base/json.h"
#include "cli/planned.h"
#include "cli/program.h"

using namespace plimsoll;
using test::kConfigs;
using test::part_bytes;
using test::plan_of;
using test::Scratch;
using test::shell;

TEST_CASE("a config without a folder counts images as the published models' are prepared") {
  const Scratch scratch;
  const std::string name = GENERATE("internvl2-2b", "qwen2.5-vl-3b", "gemma-3-27b-it");
  INFO(name);
  const std::string model = kConfigs + name + ".json --gpu h100";
  const Json plan = plan_of(scratch, model);
  CHECK(part_bytes(plan, "vision weights") > (int64_t{500} << 20));
  CHECK(part_bytes(plan, "image embeddings") > (int64_t{100} << 20));
  const bool noted = plan["notes"].dump().find("as published models of") != std::string::npos;
  CHECK(noted == (name != "internvl2-2b"));  // whose config says it
}

TEST_CASE("embeddings are kept as the cache of processed images asks") {
  const Scratch scratch;
  const auto kept = [&](const std::string& flags, const char* model = "qwen2.5-vl-3b.json") {
    const Json plan = plan_of(scratch, kConfigs + model + " --max-model-len 4096" + flags);
    return part_bytes(plan, "image embeddings");
  };
  constexpr int64_t kMost = 4095, kRow = 2048;  // embeddings of the largest image, of numbers
  const std::string card = " --gpu h100";
  CHECK(kept(card) == int64_t{512} << 20);
  CHECK(kept(card + " --mm-processor-cache-gb 16") == int64_t{2} << 30);
  CHECK(kept(card + " --mm-processor-cache-gb 1") == int64_t{128} << 20);
  CHECK(kept(card + " --mm-processor-cache-gb 0") == 8192 * kRow * 2);  // a step's
  // Images that always become 256 embeddings: room for at most 64, unless more is asked for.
  const char* const gemma = "gemma-3-27b-it.json";
  constexpr int64_t kWide = int64_t{5376} * 2;
  CHECK(kept(card, gemma) == 64 * 256 * kWide);
  CHECK(kept(card + " --mm-processor-cache-gb 8", gemma) == (int64_t{1} << 30) / kWide * kWide);
  CHECK(kept(" --device cpu --dtype bfloat16") == int64_t{512} << 20);
  // Embeddings of one image.
  CHECK(kept(card + " --mm-processor-cache-gb 0 --max-num-batched-tokens 2048") ==
        kMost * kRow * 2);
}

TEST_CASE("the encoder has room for videos with settings of their own") {
  const Scratch scratch;
  const auto scratch_bytes = [&](const char* settings) {
    const Json plan = plan_of(scratch, kConfigs + "qwen2.5-vl-3b.json --gpu h100" +
                                           " --mm-processor-kwargs '" + settings + "'");
    return part_bytes(plan, "step scratch");
  };
  const int64_t large = scratch_bytes(R"({"max_pixels": 12845056})");
  CHECK(scratch_bytes(R"({"max_pixels": 50176})") < large);
  CHECK(scratch_bytes(R"({"max_pixels": 50176, "videos_kwargs": {"max_pixels": 12845056}})") ==
        large);
}

TEST_CASE("of models that see, smaller images are advised for our own engine too, with tokens") {
  const Scratch scratch;
  const std::string folder = PLIMSOLL_SOURCE_DIR "/tests/data/golden/multimodal_run/qwen2_5_vl/";
  shell(scratch,
        "mkdir m; sed 's/\"max_position_embeddings\": 2048/\"max_position_embeddings\": "
        "32768/' " +
            folder + "config.json > m/config.json; sed 's/28224/12845056/' " + folder +
            "preprocessor_config.json > m/preprocessor_config.json");
  const Json plan = plan_of(scratch, "m --engine plimsoll --gpu t4 --advise");
  const auto advised = [&](const std::string& flag) {
    for (const Json& advice : plan["advice"]) {
      if (advice["flag"] == flag) return advice;
    }
    return Json(nullptr);
  };
  const Json pixels = advised(R"(--mm-processor-kwargs '{"max_pixels": 1003520}')");
  REQUIRE(pixels.is_object());
  CHECK_THAT(pixels["change"].get<std::string>(),
             Catch::Contains("at most 1280 tokens, not 16384"));
  CHECK(pixels["saves_bytes"] > int64_t{1} << 20);
  CHECK(advised(R"(--mm-processor-kwargs '{"max_dynamic_patch": 4}')").is_null());
}
