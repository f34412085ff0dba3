// Resizing against its slow twin: every filter, fraction and way of changing size.
#include <catch2/catch.hpp>

#include <random>

#include "image/axis_passes.h"
#include "reference/resample.h"

using namespace plimsoll;
using namespace plimsoll::image;

namespace {

Image noise(Size size) {
  std::mt19937 random(7);
  Image image{size, Levels(static_cast<size_t>(3 * size.width * size.height))};
  for (uint8_t& level : image.rgb) level = static_cast<uint8_t>(random());
  return image;
}

Rows rows_of(const Image& image) {
  return {image.size, image.rgb.data(), std::ssize(image.rgb)};
}

/// Both passes by `passes`, which take the weights.
Image resize_by(const AxisPasses& passes, const Image& image, Size to, Resampling resampling) {
  Image wide = blank({to.width, image.size.height});
  passes.across(rows_of(image), axis_weights(image.size.width, to.width, resampling),
                wide.rgb.data());
  Image out = blank(to);
  passes.down(rows_of(wide), axis_weights(image.size.height, to.height, resampling),
              out.rgb.data());
  return out;
}

}  // namespace

TEST_CASE("resizing gives the bits of its definition") {
  const auto [from, to] = GENERATE(table<Size, Size>({
      {{1, 1}, {5, 7}},
      {{37, 53}, {37, 20}},  // one pass, of columns
      {{37, 53}, {80, 53}},  // one pass, of rows
      {{64, 33}, {31, 67}},  // smaller and larger; 32 rows are turned at a time
      {{2, 9}, {1, 3}},      // rows of a few bytes
      {{3, 6}, {11, 5}},
      {{101, 40}, {3, 2}},  // many inputs to an output
      {{9, 120}, {40, 1}},
  }));
  const Filter filter = GENERATE(Filter::bilinear, Filter::bicubic, Filter::lanczos);
  const Fraction fraction = GENERATE(Fraction::torchvision, Fraction::pillow);
  INFO(from.width << " x " << from.height << " to " << to.width << " x " << to.height << ", filter "
                  << static_cast<int>(filter));
  const Image image = noise(from);
  const Image expected = testing::resize_plainly(image, to, {filter, fraction});
  const Image got = resize(image, to, {filter, fraction});
  CHECK(got.size == to);
  CHECK(got.rgb == expected.rgb);
}

TEST_CASE("a part of a resized image has the whole one's pixels") {
  const auto [from, to] = GENERATE(table<Size, Size>({
      {{64, 33}, {31, 67}},
      {{64, 33}, {64, 33}},
      {{64, 33}, {64, 90}},
      {{64, 33}, {20, 33}},
      {{40, 30}, {7, 5}},
  }));
  const Filter filter = GENERATE(Filter::nearest, Filter::bicubic);
  const Image image = noise(from);
  const Part part{{to.width / 3, to.width / 2}, {to.height / 4, to.height / 2}};
  const Image whole = resize(image, to, {filter, Fraction::torchvision});
  const Image expected =
      crop(whole, part.columns.first, part.rows.first, {part.columns.count, part.rows.count});
  const Image got = resize(image, to, {filter, Fraction::torchvision}, part);
  CHECK(got.size == expected.size);
  CHECK(got.rgb == expected.rgb);
}

TEST_CASE("images of several bands between the passes have the same pixels") {
  const Image image = noise({9, 3000});
  const Resampling resampling{Filter::lanczos, Fraction::torchvision};
  const Size to{1001, GENERATE(290, 4000)};
  CHECK(resize(image, to, resampling).rgb ==
        resize_by(axis_passes().front(), image, to, resampling).rgb);
}

TEST_CASE("an image of the size that is wanted stays as it is") {
  const Image image = noise({5, 4});
  CHECK(resize(image, {5, 4}, {}).rgb == image.rgb);
}

TEST_CASE("the fraction follows the axis' largest weight") {
  // Enlarging: a weight of 1 leaves 14 bits. To a tenth: weights are about ten times smaller.
  CHECK(axis_weights(10, 30, {Filter::bilinear, Fraction::torchvision}).shift >= 14);
  CHECK(axis_weights(300, 30, {Filter::bilinear, Fraction::torchvision}).shift == 18);
  CHECK(axis_weights(300, 30, {Filter::bilinear, Fraction::pillow}).shift == 22);
}

TEST_CASE("every machine's way of resizing has the same bits") {
  const auto [from, to] = GENERATE(table<Size, Size>({
      {{1, 1}, {1, 1}},
      {{1, 7}, {2, 3}},
      {{5, 5}, {11, 4}},
      {{10, 3}, {11, 9}},  // a row of 33 bytes
      {{97, 41}, {23, 50}},
      {{260, 9}, {2, 2}},
  }));
  const Filter filter =
      GENERATE(Filter::nearest, Filter::bilinear, Filter::bicubic, Filter::lanczos);
  const Fraction fraction = GENERATE(Fraction::torchvision, Fraction::pillow);
  INFO(from.width << " x " << from.height << " to " << to.width << " x " << to.height << ", filter "
                  << static_cast<int>(filter));
  const Image image = noise(from);
  const Resampling resampling{filter, fraction};
  const Image expected = resize_by(axis_passes().back(), image, to, resampling);
  for (const AxisPasses& passes : axis_passes()) {
    INFO(passes.name);
    if (!passes.takes(axis_weights(from.width, to.width, resampling)) ||
        !passes.takes(axis_weights(from.height, to.height, resampling))) {
      CHECK(fraction == Fraction::pillow);
      continue;
    }
    CHECK(resize_by(passes, image, to, resampling).rgb == expected.rgb);
  }
}

TEST_CASE("a row's channels are split into planes") {
  const int64_t pixels = GENERATE(1, 15, 16, 17, 50);
  const Image image = noise({pixels, 1});
  for (const AxisPasses& passes : axis_passes()) {
    INFO(passes.name);
    std::vector<uint8_t> planes(static_cast<size_t>(3 * pixels));
    passes.split(image.rgb.data(), pixels,
                 {planes.data(), planes.data() + pixels, planes.data() + 2 * pixels});
    for (size_t i = 0; i < planes.size(); ++i) {
      const size_t pixel = i % static_cast<size_t>(pixels), c = i / static_cast<size_t>(pixels);
      CHECK(planes[i] == image.rgb[3 * pixel + c]);
    }
  }
}
