#include "image/resample.h"

#include <algorithm>
#include <optional>

#include "image/axis_passes.h"

namespace plimsoll::image {
namespace {

/// Bytes of the rows that are held between the passes, unless one output needs more.
constexpr int64_t kBandBytes = int64_t{1} << 20;

const AxisPasses& passes_for(const AxisWeights& axis) {
  return *std::ranges::find_if(axis_passes(), [&](const AxisPasses& p) { return p.takes(axis); });
}

std::optional<AxisWeights> weights_of(int64_t inputs, int64_t outputs, Resampling resampling,
                                      Outputs some) {
  if (inputs == outputs) return std::nullopt;
  return axis_weights(inputs, outputs, resampling, some);
}

Rows rows_of(const Image& image, int64_t first, int64_t count) {
  const int64_t before = first * image.size.width * 3;
  return {{image.size.width, count}, image.rgb.data() + before, std::ssize(image.rgb) - before};
}

/// The part's columns of the image's rows.
struct ColumnPass {
  const Image& image;
  const std::optional<AxisWeights>& axis;  // none: columns stay as they are
  Outputs columns;

  [[nodiscard]] bool keeps_all() const { return !axis && columns.count == image.size.width; }
  void fill(int64_t first, int64_t count, uint8_t* to) const {
    const Rows rows = rows_of(image, first, count);
    if (axis) return passes_for(*axis).across(rows, *axis, to);
    for (int64_t row = 0; row < count; ++row) {
      std::copy_n(rows.rgb + 3 * (row * image.size.width + columns.first), 3 * columns.count,
                  to + 3 * row * columns.count);
    }
  }
};

/// Outputs [begin, end) of an axis, whose inputs are counted from the first of them.
AxisWeights slice_of(const AxisWeights& axis, int64_t begin, int64_t end) {
  AxisWeights some{.first = {axis.first.begin() + begin, axis.first.begin() + end},
                   .count = {axis.count.begin() + begin, axis.count.begin() + end},
                   .weights = {axis.weights.begin() + begin * axis.reach,
                               axis.weights.begin() + end * axis.reach},
                   .reach = axis.reach,
                   .shift = axis.shift};
  const int32_t first = some.first.front();
  for (int32_t& input : some.first) input -= first;
  return some;
}

/// The end of the inputs that the outputs up to this one need.
int64_t end_input(const AxisWeights& axis, int64_t output) {
  const auto i = static_cast<size_t>(output);
  return axis.first[i] + axis.count[i];
}

/// Outputs from `begin` on whose inputs make a band.
int64_t end_of_band(const AxisWeights& axis, int64_t begin, int64_t row_bytes) {
  const int64_t first = axis.first[static_cast<size_t>(begin)];
  int64_t end = begin + 1;
  while (end < std::ssize(axis.first) && (end_input(axis, end) - first) * row_bytes <= kBandBytes)
    ++end;
  return end;
}

/// Fills the image by both passes, band by band.
void fill_bands(const ColumnPass& across, const AxisWeights& down, Image& out) {
  const int64_t row_bytes = 3 * out.size.width;
  Levels band;
  for (int64_t y = 0; y < out.size.height;) {
    const int64_t end = end_of_band(down, y, row_bytes);
    const int64_t first = down.first[static_cast<size_t>(y)];
    const int64_t count = end_input(down, end - 1) - first;
    Rows rows = rows_of(across.image, first, count);
    if (!across.keeps_all()) {
      if (std::ssize(band) < count * row_bytes)
        band = Levels(static_cast<size_t>(count * row_bytes));
      across.fill(first, count, band.data());
      rows = {{out.size.width, count}, band.data(), std::ssize(band)};
    }
    const AxisWeights axis = slice_of(down, y, end);
    passes_for(axis).down(rows, axis, out.rgb.data() + y * row_bytes);
    y = end;
  }
}

}  // namespace

Image resize(const Image& image, Size to, Resampling resampling) {
  return resize(image, to, resampling, {{0, to.width}, {0, to.height}});
}

Image resize(const Image& image, Size to, Resampling resampling, const Part& part) {
  Image out = blank({part.columns.count, part.rows.count});
  const auto across = weights_of(image.size.width, to.width, resampling, part.columns);
  const auto down = weights_of(image.size.height, to.height, resampling, part.rows);
  const ColumnPass columns{image, across, part.columns};
  if (down) {
    fill_bands(columns, *down, out);
  } else {
    columns.fill(part.rows.first, part.rows.count, out.rgb.data());
  }
  return out;
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
