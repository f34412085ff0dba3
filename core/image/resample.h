// Resizing as Pillow and torchvision do it: separable, in fixed point, 8 bits between the passes,
// horizontal first.
#pragma once

#include "image/image.h"

namespace plimsoll::image {

/// Filter of resizing: one input (nearest); reach of 1, 2 (a = -0.5) and 3 inputs, of wider ones
/// where an image shrinks.
enum class Filter : uint8_t { nearest, bilinear, bicubic, lanczos };

/// Rounding of weights: torchvision and Pillow round them to different fractions.
enum class Fraction : uint8_t {
  torchvision,  // as many bits as leave the axis' largest weight in 16
  pillow,       // 22 bits
};

struct Resampling {
  Filter filter = Filter::bicubic;
  Fraction fraction = Fraction::torchvision;
};

/// Weights by which an axis of `outputs` is computed from one of `inputs`: output i is the sum of
/// weights[i * reach + k] * input[first[i] + k], k < count[i], plus half, shifted right by `shift`.
struct AxisWeights {
  std::vector<int32_t> first, count;  // [outputs]
  std::vector<int32_t> weights;       // [outputs, reach]
  int32_t reach = 0;
  int32_t shift = 0;
};

/// A range of outputs.
struct Outputs {
  int64_t first = 0;
  int64_t count = 0;
};

AxisWeights axis_weights(int64_t inputs, int64_t outputs, Resampling resampling);
/// Weights of the outputs `some` alone, counted from the first of them; shifted as for all outputs.
AxisWeights axis_weights(int64_t inputs, int64_t outputs, Resampling resampling, Outputs some);

/// The columns and rows of a part of an image.
struct Part {
  Outputs columns, rows;
};

/// Resizes an image; an axis that keeps its length has no pass. `to` must not be empty. Between
/// the passes a megabyte of rows is held at a time, or the rows of one output.
Image resize(const Image& image, Size to, Resampling resampling);
/// Resizes a part of an image: the part of the result for all. Memory and most of the work are the
/// part's.
Image resize(const Image& image, Size to, Resampling resampling, const Part& part);

/// Cuts out the part of `size` that begins at column x and row y, and lies within the image.
Image crop(const Image& image, int64_t x, int64_t y, Size size);

}  // namespace plimsoll::image
