// Resizing as Pillow and torchvision do it: separable, in fixed point, 8 bits between the passes,
// horizontal first.
#pragma once

#include "image/image.h"

namespace plimsoll::image {

/// One input; reach of 1, 2 (a = -0.5) and 3 inputs, of wider ones where a picture shrinks.
enum class Filter : uint8_t { nearest, bilinear, bicubic, lanczos };

/// Whose weights: the two libraries round them to different fractions.
enum class Fraction : uint8_t {
  torchvision,  // as many bits as leave the axis' largest weight in 16
  pillow,       // 22 bits
};

struct Resampling {
  Filter filter = Filter::bicubic;
  Fraction fraction = Fraction::torchvision;
};

/// What an axis of `outputs` takes of one of `inputs`: output i is the sum of weights[i * reach +
/// k] * input[first[i] + k], k < count[i], plus half, shifted right by `shift`.
struct AxisWeights {
  std::vector<int32_t> first, count;  // [outputs]
  std::vector<int32_t> weights;       // [outputs, reach]
  int32_t reach = 0;
  int32_t shift = 0;
};

AxisWeights axis_weights(int64_t inputs, int64_t outputs, Resampling resampling);

/// An axis that keeps its length has no pass. `to` has pixels.
Image resize(const Image& image, Size to, Resampling resampling);

/// The part of `size` that begins at column x and row y, and lies within the picture.
Image crop(const Image& image, int64_t x, int64_t y, Size size);

}  // namespace plimsoll::image
