// Sizes of images and videos by settings, limits and contexts, counted by hand from the rules of
// their processors.
#include <catch2/catch.hpp>

#include "base/json.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/items/item_geometry.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

std::map<std::string, int64_t> settings_of(const Json& settings) {
  std::map<std::string, int64_t> read;
  read_processor_settings(ConfigView(settings, "preprocessor_config.json"), "", read);
  return read;
}

/// An image of 336 pixels in patches of 14, 144 tokens a tile.
VisionShape tiles_of(VisionShape::Kind kind) {
  VisionShape vision;
  vision.kind = kind;
  vision.patch = 14;
  vision.image_size = 336;
  vision.tokens_per_image = 144;
  vision.max_tiles = 6;
  return vision;
}

/// Tokens of the largest image where a processor has a setting.
int64_t tokens_with(const VisionShape& vision, const char* key, int64_t value) {
  EngineArgs args;
  args.processor[key] = value;
  return largest_image(vision, args).tokens;
}

}  // namespace

TEST_CASE("settings of a processor are read at every depth, switches as 0 and 1") {
  const auto read = settings_of({{"size", {{"longest_edge", 1540}, {"a", {{"b", -3}}}}},
                                 {"do_resize", true},
                                 {"do_pan_and_scan", false},
                                 {"rescale_factor", 0.5},
                                 {"image_mean", {1, 2}},
                                 {"name", "7"}});
  CHECK(read == std::map<std::string, int64_t>{{"size.longest_edge", 1540},
                                               {"size.a.b", -3},
                                               {"do_resize", 1},
                                               {"do_pan_and_scan", 0}});
  Json many;
  for (int i = 0; i < 5000; ++i) many["key" + std::to_string(i)] = i;
  CHECK(settings_of(many).size() == 4096);
  // Keys are followed while the way to them has fewer than 64 letters.
  const Json leaf = {{"x", 1}};
  CHECK(settings_of({{std::string(62, 'a'), {{"b", leaf}}}}).size() == 1);
  CHECK(settings_of({{std::string(63, 'a'), {{"b", leaf}}}}).empty());
  CHECK(settings_of({{std::string(63, 'a'), leaf}}).size() == 1);
}

TEST_CASE("a setting of the launch goes before one of the file, and of a scope before others") {
  EngineArgs args;
  const auto edge = [&](const char* scope) { return setting(args, scope, {"a", "b"}, 7, 100); };
  CHECK(edge(kImageScope) == 7);
  args.processor_file["b"] = 10;
  CHECK(edge(kImageScope) == 10);
  CHECK(edge(kVideoScope) == 7);  // the file is of images
  args.processor_file[std::string(kVideoScope) + ".b"] = 11;
  CHECK(edge(kVideoScope) == 11);
  args.processor_file["a"] = 12;
  CHECK(edge(kImageScope) == 12);
  args.processor["b"] = 13;
  CHECK(edge(kImageScope) == 13);
  CHECK(edge(kVideoScope) == 13);
  args.processor[std::string(kImageScope) + ".b"] = 14;
  CHECK(edge(kImageScope) == 14);
  CHECK(edge(kVideoScope) == 13);
  args.processor["a"] = 101;
  args.processor.erase(std::string(kImageScope) + ".b");
  CHECK(edge(kImageScope) == 100);
  args.processor["a"] = -1;
  CHECK(edge(kImageScope) == 0);
}

TEST_CASE("the fullest image has sides that differ by a factor of 200 at most") {
  struct Row {
    int64_t units, width, height;
  };
  for (const Row& row : {Row{1, 1, 1}, Row{2, 2, 1}, Row{12, 4, 3}, Row{36, 6, 6}, Row{199, 199, 1},
                         Row{211, 15, 14}, Row{398, 199, 2}}) {
    INFO(row.units);
    constexpr int64_t kUnit = 28;
    for (const int64_t pixels : {row.units * kUnit * kUnit, (row.units + 1) * kUnit * kUnit - 1}) {
      const Size size = fullest_size(pixels, kUnit);
      CHECK(size.width == row.width * kUnit);
      CHECK(size.height == row.height * kUnit);
    }
  }
  CHECK(fullest_size(0, 28).width == 28);
}

TEST_CASE("sides are rounded to whole units, halves to even, and scaled into their bounds") {
  struct Row {
    Size size;
    PixelBounds bounds;
    int64_t width, height;
  };
  constexpr int64_t kU = 28;
  const PixelBounds any{0, int64_t{1} << 40};
  for (const Row& row :
       {Row{{42, 70}, any, 2 * kU, 2 * kU}, Row{{98, 13}, any, 4 * kU, kU},
        Row{{56, 56}, {0, 56 * 56}, 56, 56}, Row{{56, 56}, {56 * 56, 56 * 56}, 56, 56},
        Row{{57, 56}, {0, 56 * 56 - 1}, 2 * kU, kU}, Row{{56, 56}, {56 * 56 + 1, 1 << 20}, 84, 84},
        Row{{280, 28}, {0, 280 * 28 / 4}, 140, 28}}) {
    INFO(row.size.width << " x " << row.size.height);
    const Size size = smart_resize(row.size, 1, 1, kU, row.bounds);
    CHECK(size.width == row.width);
    CHECK(size.height == row.height);
  }
}

TEST_CASE("a switch of the processor turns tiles off, and their number is one at least") {
  VisionShape tiled = tiles_of(VisionShape::Kind::tiles);
  CHECK(largest_image(tiled, {}).tokens == (6 + 1) * 144);
  CHECK(tokens_with(tiled, "max_dynamic_patch", 2) == (2 + 1) * 144);
  CHECK(tokens_with(tiled, "max_dynamic_patch", 1) == 144);
  CHECK(tokens_with(tiled, "max_dynamic_patch", 0) == 144);
  tiled.thumbnail = false;
  CHECK(largest_image(tiled, {}).tokens == 6 * 144);
  tiled.tiles_key = "do_tile";
  tiled.tiles_on = false;
  CHECK(largest_image(tiled, {}).tokens == 144);
  CHECK(tokens_with(tiled, "do_tile", 1) == 6 * 144);
  VisionShape split = tiles_of(VisionShape::Kind::split);
  split.longest_edge = 4 * 336;
  split.tiles_key = "do_image_splitting";
  CHECK(largest_image(split, {}).tokens == (4 * 4 + 1) * 144);
  CHECK(tokens_with(split, "do_image_splitting", 0) == 144);
  CHECK(tokens_with(split, "size.longest_edge", 4 * 336 + 1) == (5 * 5 + 1) * 144);
  CHECK(tokens_with(split, "size.longest_edge", 100) == 144);  // no less than a tile
  CHECK(tokens_with(split, "max_image_size.longest_edge", 672) == (2 * 2 + 1) * 144);
  CHECK(tokens_with(split, "max_image_size.longest_edge", 0) > 0);
}

TEST_CASE("an image of tiles has the tokens of nine of them at most, and a newline a row") {
  VisionShape vision;
  vision.kind = VisionShape::Kind::any_resolution;
  vision.patch = 14;
  vision.image_size = 384;  // 27 patches a side
  vision.tokens_per_image = 729;
  vision.nine_tiles = true;
  // Of 1153 x 944 pixels 3 x 4 tiles keep 98 x 81 patches, 1.09994 times nine tiles a side.
  vision.pinpoints = {{1152, 1152}, {1152, 1536}, {1536, 1536}};
  CHECK(largest_image(vision, {}).tokens == 729 + 98 * 81 + 81);
  CHECK(largest_image(vision, {}).rows == (3 * 4 + 1) * 729);
  // Of 6 x 6 tiles 162 x 132 patches are left, scaled down by the root of 21384 / 6561.
  vision.pinpoints = {{2304, 2304}};
  CHECK(largest_image(vision, {}).tokens == 729 + 89 * 73 + 73);
  CHECK(largest_image(vision, {}).rows == (6 * 6 + 1) * 729);
}

TEST_CASE("an image of no size is one unit") {
  VisionShape vision;
  vision.kind = VisionShape::Kind::longest_edge;
  vision.patch = 16;
  vision.merge = 2;
  vision.longest_edge = 1540;
  CHECK(largest_image(vision, {}).rows == 98 * 98);  // padded to 1568 pixels
  CHECK(largest_image(vision, {}).tokens == 49 * 49);
  CHECK(largest_image(vision, {}).elements == 3 * 1540 * 1540);
  CHECK(tokens_with(vision, "longest_edge", 0) == 1);
  CHECK(tokens_with(vision, "size.longest_edge", 33) == 4);
}

TEST_CASE("a request holds no items where the model reads words alone, else as many as the limit") {
  EngineArgs args;
  CHECK(modality_limit(args, "image") == 999);
  args.limits["image"].count = 3;
  CHECK(modality_limit(args, "image") == 3);
  CHECK(modality_limit(args, "video") == 999);
  args.language_only = true;
  CHECK(modality_limit(args, "image") == 0);
  CHECK(modality_limit(args, "video") == 0);
}

TEST_CASE("frames are as many as the context holds beside an image, and one at least") {
  VisionShape vision = tiles_of(VisionShape::Kind::tiles);
  vision.video = VisionShape::Video::tiles;
  vision.tokens_per_frame = 100;
  const int64_t image = 7 * 144;
  CHECK(largest_video(vision, {}, image + 450).tokens == 4 * 100);
  CHECK(largest_video(vision, {}, image + 500).tokens == 5 * 100);
  CHECK(profiled_video(vision, {}, 500).tokens == 5 * 100);
  CHECK(largest_video(vision, {}, 10).tokens == 100);
  EngineArgs alone;
  alone.limits["image"].count = 0;
  CHECK(largest_video(vision, alone, 500).tokens == 5 * 100);
  vision.most_frames = 3;
  CHECK(largest_video(vision, alone, 500).tokens == 3 * 100);
  vision.video = VisionShape::Video::pooled;
  vision.most_frames = 0;
  vision.video_tokens = 7;
  CHECK(largest_video(vision, {}, 407).tokens == 4 * 100 + 7);
  CHECK(largest_video(vision, {}, 406).tokens == 3 * 100 + 7);
  vision.tokens_per_frame = 0;  // frames of no tokens end at the most that is counted
  CHECK(largest_video(vision, {}, 1 << 20).tokens == 7);
  vision.video = VisionShape::Video::tiles;
  CHECK(largest_video(vision, {}, 1 << 20).tokens == 7);
}

TEST_CASE("clips pass the tower at once as far as it takes them") {
  ModelShape shape;
  shape.multimodal = true;
  shape.hidden = 64;
  shape.sound.tower = {.hidden = 32, .intermediate = 128, .gated = false};
  shape.sound.tokens = 100;
  shape.sound.rows = 200;
  shape.sound.elements = 1000;
  std::string formula;
  const auto peak = [&](int64_t sequences, int64_t at_once) {
    shape.sound.rows_at_once = at_once;
    EngineArgs args;
    args.limits["audio"].count = 1;
    const EncoderMemory memory = encoder_memory(
        args, {.max_num_seqs = sequences, .max_num_batched_tokens = 8192}, shape, 2, 4096);
    formula = memory.peak_formula;
    return memory.peak;
  };
  const int64_t row = (3 * 32 + 2 * 128) * 2;
  CHECK(peak(3, 0) == 3 * 200 * row);
  CHECK(formula == "600 rows x 2 B x 352");
  CHECK(peak(3, 600) == 3 * 200 * row);
  CHECK(peak(3, 599) == 599 * row);
  CHECK(peak(2, 599) == 2 * 200 * row);
  CHECK(peak(1000, 0) == 81 * 200 * row);  // 8192 tokens hold 81 clips
}
