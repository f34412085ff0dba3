// Resizing against its slow twin: every filter, fraction and way of changing size.
#include <catch2/catch.hpp>

#include <random>

#include "reference/resample.h"

using namespace plimsoll;
using namespace plimsoll::image;

namespace {

Image noise(Size size) {
  std::mt19937 random(7);
  Image image{size, std::vector<uint8_t>(static_cast<size_t>(3 * size.width * size.height))};
  for (uint8_t& level : image.rgb) level = static_cast<uint8_t>(random());
  return image;
}

}  // namespace

TEST_CASE("resizing gives the bits of its definition") {
  const auto [from, to] = GENERATE(table<Size, Size>({
      {{1, 1}, {5, 7}},
      {{37, 53}, {37, 20}},  // one pass, of columns
      {{37, 53}, {80, 53}},  // one pass, of rows
      {{64, 33}, {31, 67}},  // smaller and larger; 32 rows are turned at a time
      {{101, 40}, {3, 2}},   // many inputs to an output
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

TEST_CASE("a picture of the size that is wanted stays as it is") {
  const Image image = noise({5, 4});
  CHECK(resize(image, {5, 4}, {}).rgb == image.rgb);
}

TEST_CASE("the fraction follows the axis' largest weight") {
  // Enlarging: a weight of 1 leaves 14 bits. To a tenth: weights are about ten times smaller.
  CHECK(axis_weights(10, 30, {Filter::bilinear, Fraction::torchvision}).shift >= 14);
  CHECK(axis_weights(300, 30, {Filter::bilinear, Fraction::torchvision}).shift == 18);
  CHECK(axis_weights(300, 30, {Filter::bilinear, Fraction::pillow}).shift == 22);
}
