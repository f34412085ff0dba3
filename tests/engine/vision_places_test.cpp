// Where images stand: in a prompt, in positions by kind, in an encoder's rows.
#include <catch2/catch.hpp>
#include <numeric>

#include "engine/vision/encoder_rows.h"
#include "engine/vision/images.h"
#include "engine/vision/rope_positions.h"
#include "engine/vision/windows.h"

using namespace plimsoll;
using namespace plimsoll::engine;

namespace {

using Ids = std::vector<int32_t>;
using Lengths = std::vector<int64_t>;

/// Runs of each image as (first, count, embedding).
std::vector<std::vector<std::vector<int64_t>>> runs_of(const Ids& prompt, const Lengths& counts) {
  std::vector<std::vector<std::vector<int64_t>>> images;
  for (const auto& runs : find_runs(prompt, 7, counts)) {
    auto& image = images.emplace_back();
    for (const ImageRun& run : runs) image.push_back({run.first, run.count, run.embedding});
  }
  return images;
}

/// An image of so many rows and columns of patches from a position on.
Image image_at(int64_t first, int64_t frames, int64_t rows, int64_t columns) {
  auto pixels = std::make_shared<image::Pixels>();
  pixels->layout.frames = frames;
  pixels->layout.rows = rows;
  pixels->layout.columns = columns;
  pixels->layout.frame_seconds = 1.5;
  pixels->layout.tokens = frames * rows * columns / 4;
  return {.key = {}, .pixels = pixels, .runs = {{first, pixels->layout.tokens, 0}}};
}

}  // namespace

TEST_CASE("placeholders belong to images in order, text may stand between them") {
  using Runs = std::vector<std::vector<std::vector<int64_t>>>;
  CHECK(runs_of({1, 7, 7, 2, 7}, {2, 1}) == Runs{{{1, 2, 0}}, {{4, 1, 0}}});
  CHECK(runs_of({7, 7, 7}, {1, 2}) == Runs{{{0, 1, 0}}, {{1, 2, 0}}});
  CHECK(runs_of({7, 1, 7, 7}, {3}) == Runs{{{0, 1, 0}, {2, 2, 1}}});
  CHECK(runs_of({7, 7, 7}, {2}) == Runs{{{0, 2, 0}}});               // one too many
  CHECK(runs_of({7, 7}, {1, 3}) == Runs{{{0, 1, 0}}, {{1, 1, 0}}});  // too few for the last
  CHECK(runs_of({1, 2}, {1}).empty());
}

TEST_CASE("positions by kind: text counts on behind an image's largest") {
  // A token, an image of 2 x 3 merged patches, two tokens.
  const ImageGrid grid{.first = 1, .frames = 1, .rows = 2, .columns = 3, .frame_step = 1};
  const RopePositions image = rope_positions(9, std::span(&grid, 1));
  CHECK(image.positions == Ids{0, 1, 1, 1, 1, 1, 1, 4, 5,    // times
                               0, 1, 1, 1, 2, 2, 2, 4, 5,    // rows
                               0, 1, 2, 3, 1, 2, 3, 4, 5});  // columns
  CHECK(image.delta == -3);
  // Frames of one patch, half a position apart: whole positions are cut off.
  const ImageGrid video{.first = 0, .frames = 4, .rows = 1, .columns = 1, .frame_step = 0.5};
  const RopePositions frames = rope_positions(5, std::span(&video, 1));
  CHECK(frames.positions == Ids{0, 0, 1, 1, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2});
  CHECK(frames.delta == -2);
  CHECK(rope_positions(2, {}).positions == Ids{0, 1, 0, 1, 0, 1});
  CHECK(rope_positions(2, {}).delta == 0);
}

TEST_CASE("images are put in the prompt's order, with positions where the model has them") {
  model::VisionSpec vision;
  vision.kind = model::VisionKind::qwen2_vl;
  vision.merge = 2;
  const auto placed = [&] {
    return place_images(vision, {image_at(5, 1, 4, 2), image_at(1, 2, 2, 2)}, 8);
  };
  const Images images = placed();
  CHECK(images.items[0].runs[0].first == 1);
  CHECK(images.items[1].runs[0].first == 5);
  CHECK(!images.two_way);
  // A token, two frames of a patch, two tokens, 2 x 1 patches, a token.
  CHECK(images.rope_positions == Ids{0, 1, 2, 3, 4, 5, 5, 7,    //
                                     0, 1, 1, 3, 4, 5, 6, 7,    //
                                     0, 1, 1, 3, 4, 5, 5, 7});  //
  CHECK(images.rope_delta == 0);
  vision.positions_per_second = 2;  // 3 positions from a frame to the next
  CHECK(placed().rope_positions[2] == 4);
  vision.kind = model::VisionKind::gemma3;
  CHECK(placed().two_way);
  CHECK(placed().rope_positions.empty());
}

TEST_CASE("windows are cut short at the edges, row by row") {
  const WindowOrder order = window_order(3, 3, 2);
  CHECK(order.units == Ids{0, 1, 3, 4, 2, 5, 6, 7, 8});
  CHECK(order.lengths == Lengths{4, 2, 2, 1});
  CHECK(window_order(2, 4, 2).lengths == Lengths{4, 4});
  const WindowOrder whole = window_order(2, 3, 0);
  CHECK(whole.units == Ids{0, 1, 2, 3, 4, 5});
  CHECK(whole.lengths == Lengths{6});
}

TEST_CASE("rows of a tile: merged blocks one after the other, the class token apart") {
  model::VisionSpec spec;
  spec.image = 8;
  spec.patch = 2;
  spec.merge = 2;
  spec.layers.emplace_back();
  const Ids blocks = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  CHECK(tile_rows(spec).order == blocks);
  CHECK(tile_rows(spec).frames == Lengths{16});
  spec.class_token = 0;
  spec.first_row = 1;
  const EncoderRows behind = tile_rows(spec);
  CHECK(behind.frames == Lengths{17});
  REQUIRE(behind.order.size() == 16);
  for (size_t i = 0; i < 16; ++i) CHECK(behind.order[i] == blocks[i] + 1);
  spec.layers.clear();
  CHECK(tile_rows(spec).frames.empty());
}

TEST_CASE("rows of a frame stand window by window, each patch with its row and column") {
  model::VisionSpec spec;
  spec.merge = 2;
  spec.window = 1;
  spec.layers.emplace_back();
  image::Layout layout;
  layout.rows = 2;
  layout.columns = 4;
  const WindowOrder turned{.units = {1, 0}, .lengths = {1, 1}};
  EncoderRows rows = frame_rows(spec, layout, turned);
  CHECK(rows.order == Ids{1, 0});
  CHECK(rows.frames == Lengths{8});
  CHECK(rows.windows == Lengths{4, 4});
  CHECK(rows.places.empty());
  spec.rope.emplace();
  rows = frame_rows(spec, layout, turned);
  CHECK(rows.places == Ids{0, 0, 1, 1, 0, 0, 1, 1, 2, 3, 2, 3, 0, 1, 0, 1});
  spec.window = 0;
  CHECK(frame_rows(spec, layout, turned).windows.empty());
  spec.layers.clear();
  CHECK(frame_rows(spec, layout, turned).frames.empty());
}

TEST_CASE("the largest image of a launch is none of its videos") {
  ImageOptions options;
  for (const auto& [frames, tokens] : {std::pair{4, 90}, std::pair{1, 50}, std::pair{1, 40}}) {
    image::Layout& layout = options.extremes.emplace_back();
    layout.frames = frames;
    layout.tokens = tokens;
  }
  CHECK(options.largest() == 90);
  CHECK(options.largest_image() == 50);
}
