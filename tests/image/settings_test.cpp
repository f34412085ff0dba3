// What a processor's settings change: sizes, values of pixels, and the images that room is made
// for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "image/processor.h"

using namespace plimsoll;
using namespace plimsoll::image;

namespace {

std::unique_ptr<const Processor> with_settings(ProcessorKind kind, const char* settings,
                                               const char* overrides = "{}") {
  return make_processor(kind, {.shuffle = 2}, Json::parse(settings), Json::parse(overrides));
}

Image of_one_level(Size size, uint8_t level) {
  return {size, Levels(static_cast<size_t>(3 * size.width * size.height), level)};
}

/// What a level of the first channel becomes.
float value_of(const char* settings, size_t level) {
  const auto processor = with_settings(ProcessorKind::gemma3, settings);
  return (*processor->process(of_one_level({28, 28}, 0)).tables)[0][level];
}

}  // namespace

TEST_CASE("pixels are rescaled and normalized each by its own setting") {
  constexpr const char* kRaw = R"({"size": 28, "do_rescale": false, "do_normalize": false})";
  constexpr const char* kScaled = R"({"size": 28, "do_normalize": false})";
  constexpr const char* kNormal = R"({"size": 28, "do_rescale": false, "image_mean": [1, 1, 1],
                                      "image_std": [2, 2, 2]})";
  CHECK(value_of(kRaw, 51) == 51);
  CHECK(value_of(kScaled, 51) == Approx(0.2));
  CHECK(value_of(kNormal, 5) == 2);
}

TEST_CASE("a size of two numbers is height and width") {
  const auto siglip = with_settings(ProcessorKind::siglip, R"({"size": [28, 56]})");
  CHECK(siglip->layout({9, 9}).shape == std::vector<int64_t>{1, 3, 28, 56});
  CHECK(siglip->layout({9, 9}).tokens == 1 * 2);  // of 28 x 28 pixels
}

TEST_CASE("numbers of settings are taken at their bounds, and refused beyond") {
  const auto internvl = [](const char* overrides) {
    return with_settings(ProcessorKind::internvl, "{}", overrides);
  };
  CHECK_NOTHROW(internvl(R"({"max_dynamic_patch": 4096})"));
  CHECK_THROWS_AS(internvl(R"({"max_dynamic_patch": 4097})"), SettingsError);
  CHECK_THROWS_AS(internvl(R"({"max_dynamic_patch": 0})"), SettingsError);
  const auto qwen = [](const char* settings) {
    return with_settings(ProcessorKind::qwen2_vl, settings);
  };
  CHECK_THROWS_WITH(qwen(R"({"fps": 0})"), Catch::Contains("a number above 0"));
  CHECK_THROWS_AS(qwen(R"({"fps": -1})"), SettingsError);
  CHECK_THROWS_WITH(qwen(R"({"patch_size": 16})"), Catch::Contains("patch_size 16"));
  CHECK_THROWS_WITH(qwen(R"({"merge_size": 4})"), Catch::Contains("merge_size 4"));
}

TEST_CASE("frames of a video last as long as their pair") {
  const auto seconds = [](const char* settings) {
    return with_settings(ProcessorKind::qwen2_vl, settings)
        ->video_layout({56, 56}, 8)
        .frame_seconds;
  };
  CHECK(seconds("{}") == 1);
  CHECK(seconds(R"({"fps": 4})") == 0.5);
  CHECK(seconds(R"({"fps": 0.5})") == 4);
}

TEST_CASE("of a request's number of pixels and its size, the number counts") {
  const auto qwen = with_settings(
      ProcessorKind::qwen2_vl, "{}",
      R"({"max_pixels": 3136, "size": {"shortest_edge": 784, "longest_edge": 784000}})");
  CHECK(qwen->layout({1000, 1000}).tokens == 3136 / (28 * 28));
}

TEST_CASE("Qwen's room is that of an image of all tokens and of a video of the smallest frames") {
  const auto has = [](const char* settings, int64_t tokens, int64_t frames, int64_t units) {
    const auto all = with_settings(ProcessorKind::qwen2_vl, settings)->extremes(tokens);
    return std::ranges::any_of(all, [&](const Layout& layout) {
      return layout.frames == frames && layout.tokens == frames * units;
    });
  };
  CHECK(has(R"({"min_pixels": 784})", 100, 100, 1));
  CHECK(has(R"({"min_pixels": 785})", 100, 50, 2));
  CHECK(has(R"({"min_pixels": 1568})", 100, 50, 2));
  CHECK(has(R"({"max_pixels": 31360})", 100, 1, 40));
  // Without resizing no number of pixels bounds them.
  constexpr const char* kAsTheyAre =
      R"({"do_resize": false, "min_pixels": 2352, "max_pixels": 31360})";
  CHECK(has(kAsTheyAre, 100, 1, 100));
  CHECK(has(kAsTheyAre, 100, 100, 1));
}

TEST_CASE("Idefics3's tiles are those of the enlarged image, and one alone is the whole image") {
  const auto grid = [](const char* settings, Size size) {
    const Layout layout = with_settings(ProcessorKind::idefics3, settings)->layout(size);
    return std::vector<int64_t>{layout.rows, layout.columns, layout.tiles};
  };
  using Grid = std::vector<int64_t>;
  CHECK(grid(R"({"size": {"longest_edge": 364}})", {300, 300}) == Grid{0, 0, 1});
  CHECK(grid(R"({"size": {"longest_edge": 728}})", {300, 300}) == Grid{2, 2, 5});
  CHECK(grid(R"({"do_resize": false})", {364, 728}) == Grid{2, 1, 3});
  // At most 4096 pixels, 12 tiles of 364, whatever is asked for.
  CHECK(grid(R"({"size": {"longest_edge": 8192}})", {100, 100}) == Grid{12, 12, 145});
}

TEST_CASE("InternVL's tile is its config's, under either name") {
  const auto tile = [](const char* settings) {
    return with_settings(ProcessorKind::internvl, settings)->layout({10, 10}).shape;
  };
  CHECK(tile("{}") == std::vector<int64_t>{1, 3, 448, 448});
  CHECK(tile(R"({"force_image_size": 28})") == std::vector<int64_t>{1, 3, 28, 28});
  CHECK(tile(R"({"force_image_size": 28, "image_size": 56})") ==
        std::vector<int64_t>{1, 3, 56, 56});
}

TEST_CASE("CLIP puts black around an image that is smaller than its crop, more of it behind") {
  const auto clip = with_settings(
      ProcessorKind::clip, R"({"do_resize": false, "crop_size": {"height": 4, "width": 5}})");
  const Pixels pixels = clip->process(of_one_level({2, 2}, 9));
  const std::vector<uint8_t> red(pixels.levels.begin(), pixels.levels.begin() + 20);
  CHECK(red == std::vector<uint8_t>{0, 0, 0, 0, 0,  //
                                    0, 9, 9, 0, 0,  //
                                    0, 9, 9, 0, 0,  //
                                    0, 0, 0, 0, 0});
}
