#include "engine/vision/image_processor.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "batch/scratch.h"

using namespace plimsoll;

TEST_CASE("Gemma 3's images become RGB whatever the image processor's settings say") {
  model::VisionSpec vision;
  const auto asks = [&](const char* file, const char* text) {
    const test::Scratch scratch;
    scratch.write(file, text);
    return engine::read_processor_settings(vision, scratch.path(""))["do_convert_rgb"];
  };
  const char* flat = R"({"do_convert_rgb": null})";
  const char* nested = R"({"image_processor": {"do_convert_rgb": null}})";
  vision.kind = model::VisionKind::gemma3;
  CHECK(asks("preprocessor_config.json", flat) == true);
  CHECK(asks("processor_config.json", nested) == true);
  vision.kind = model::VisionKind::siglip;
  CHECK(asks("preprocessor_config.json", flat).is_null());
}

TEST_CASE("settings for images or for videos alone go before those beside them") {
  const Json nested = Json::parse(
      R"({"max_pixels": 3, "images_kwargs": {"max_pixels": 1}, "videos_kwargs": {"fps": 2}})");
  CHECK(engine::scoped_settings(nested, model::kImageScope) == Json{{"max_pixels", 1}});
  CHECK(engine::scoped_settings(nested, model::kVideoScope) == Json{{"max_pixels", 3}, {"fps", 2}});
  for (const char* scope : {model::kImageScope, model::kVideoScope}) {
    CHECK_THROWS_WITH(engine::scoped_settings(Json{{"videos_kwargs", 3}}, scope),
                      Catch::Contains("videos_kwargs"));
  }
}

TEST_CASE("settings that make images of another height or width than the tower's are refused") {
  struct Row {
    model::VisionKind kind;
    const char *settings, *overrides, *refused;  // "": taken
  };
  const char* cut =
      R"({"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}})";
  const char* square = R"({"size": {"height": 224, "width": 224}})";
  using model::VisionKind;
  for (const Row& row : {Row{VisionKind::clip, cut, "{}", ""},
                         Row{VisionKind::clip, cut,
                             R"({"crop_size": {"height": 336, "width": 224}})", "224 x 336 pixels"},
                         Row{VisionKind::clip, cut,
                             R"({"crop_size": {"height": 224, "width": 336}})", "336 x 224 pixels"},
                         Row{VisionKind::clip, cut,
                             R"({"crop_size": {"height": 336, "width": 336}})", "336 x 336 pixels"},
                         Row{VisionKind::clip, cut,
                             R"({"do_center_crop": false, "size": {"height": 224, "width": 336}})",
                             "336 x 224 pixels"},
                         Row{VisionKind::siglip, square, "{}", ""},
                         Row{VisionKind::siglip, square,
                             R"({"size": {"height": 336, "width": 224}})", "224 x 336 pixels"},
                         Row{VisionKind::siglip, square,
                             R"({"size": {"height": 224, "width": 336}})", "336 x 224 pixels"},
                         Row{VisionKind::gemma3, square,
                             R"({"size": {"height": 224, "width": 336}})", "336 x 224 pixels"}}) {
    INFO(row.overrides);
    model::VisionSpec vision;
    vision.kind = row.kind;
    vision.patch = 14;
    vision.image = 224;
    if (row.kind == VisionKind::gemma3) vision.merging = model::Merging::averaged;
    const auto make = [&] {
      return engine::make_image_processor(vision, Json::parse(row.settings),
                                          Json::parse(row.overrides));
    };
    if (std::string_view(row.refused).empty()) {
      CHECK_NOTHROW(make());
    } else {
      CHECK_THROWS_WITH(
          make(), Catch::Contains(std::string(row.refused) + ", and the tower takes 224 x 224"));
    }
  }
}

TEST_CASE("a lone config.json's images are prepared as the published processors prepare them") {
  const auto settings = [](model::VisionKind kind, int64_t image, const Json& config = {}) {
    model::VisionSpec vision;
    vision.kind = kind;
    vision.image = image;
    return engine::published_processor_settings(vision, config);
  };
  CHECK(settings(model::VisionKind::qwen2_vl, 0) ==
        Json{{"min_pixels", 3136}, {"max_pixels", 12845056}});
  CHECK(settings(model::VisionKind::clip, 336) ==
        Json::parse(
            R"({"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}})"));
  CHECK(
      settings(model::VisionKind::idefics3, 512) ==
      Json::parse(R"({"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}})"));
  CHECK(settings(model::VisionKind::siglip, 384) ==
        Json::parse(R"({"size": {"height": 384, "width": 384}})"));
}
