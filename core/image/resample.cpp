#include "image/resample.h"

#include <algorithm>

#include "image/axis_passes.h"

namespace plimsoll::image {
namespace {

const AxisPasses& passes_for(const AxisWeights& axis) {
  return *std::ranges::find_if(axis_passes(), [&](const AxisPasses& p) { return p.takes(axis); });
}

Image resize_rows(const Image& image, int64_t width, Resampling resampling) {
  const AxisWeights axis = axis_weights(image.size.width, width, resampling);
  Image out = blank({width, image.size.height});
  passes_for(axis).across(image, axis, out);
  return out;
}

Image resize_columns(const Image& image, int64_t height, Resampling resampling) {
  const AxisWeights axis = axis_weights(image.size.height, height, resampling);
  Image out = blank({image.size.width, height});
  passes_for(axis).down(image, axis, out);
  return out;
}

}  // namespace

Image resize(const Image& image, Size to, Resampling resampling) {
  if (to.width == image.size.width) {
    return to.height == image.size.height ? image : resize_columns(image, to.height, resampling);
  }
  Image wide = resize_rows(image, to.width, resampling);
  return to.height == image.size.height ? wide : resize_columns(wide, to.height, resampling);
}

Image crop(const Image& image, int64_t x, int64_t y, Size size) {
  Image part = blank(size);
  for (int64_t row = 0; row < size.height; ++row) {
    const uint8_t* from = image.rgb.data() + 3 * ((y + row) * image.size.width + x);
    std::copy_n(from, 3 * size.width, part.rgb.data() + 3 * row * size.width);
  }
  return part;
}

}  // namespace plimsoll::image
