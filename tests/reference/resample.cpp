#include "reference/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plimsoll::testing {
namespace {

using namespace image;

double filter_at(Filter filter, double x) {
  x = std::abs(x);
  const auto sinc = [](double t) {
    return t == 0 ? 1 : std::sin(std::numbers::pi * t) / (std::numbers::pi * t);
  };
  if (filter == Filter::bilinear) return std::max(0.0, 1 - x);
  if (filter == Filter::lanczos) return x < 3 ? sinc(x) * sinc(x / 3) : 0;
  if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
  return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

struct Taps {
  int64_t first = 0;
  std::vector<double> weights;  // with a sum of 1
};

Taps taps_of(int64_t output, int64_t inputs, int64_t outputs, Filter filter) {
  const double scale = static_cast<double>(inputs) / static_cast<double>(outputs);
  const double stretch = std::max(1.0, scale);
  const double reach = (static_cast<int>(filter) + 1) * stretch;
  const double center = (static_cast<double>(output) + 0.5) * scale;
  Taps taps;
  taps.first = std::max<int64_t>(0, static_cast<int64_t>(center - reach + 0.5));
  const auto end = std::min(inputs, static_cast<int64_t>(center + reach + 0.5));
  double sum = 0;
  for (int64_t x = taps.first; x < end; ++x) {
    taps.weights.push_back(filter_at(filter, (static_cast<double>(x) + 0.5 - center) / stretch));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

int shift_of(int64_t inputs, int64_t outputs, Resampling resampling) {
  if (resampling.fraction == Fraction::pillow) return 22;
  double largest = 0;
  for (int64_t i = 0; i < outputs; ++i) {
    for (const double weight : taps_of(i, inputs, outputs, resampling.filter).weights) {
      largest = std::max(largest, weight);
    }
  }
  int shift = 0;
  while (shift < 22 && std::floor(0.5 + std::ldexp(largest, shift + 1)) < 32768) ++shift;
  return shift;
}

/// at(k): the line's input k.
template <typename F>
uint8_t weigh(const Taps& taps, int shift, F at) {
  int64_t sum = shift > 0 ? int64_t{1} << (shift - 1) : 0;
  for (size_t k = 0; k < taps.weights.size(); ++k) {
    sum +=
        std::llround(std::ldexp(taps.weights[k], shift)) * at(taps.first + static_cast<int64_t>(k));
  }
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> shift, 0, 255));
}

/// One pass along the rows; `turned`: along the columns.
Image pass(const Image& from, Size to, Resampling resampling, bool turned) {
  const int64_t inputs = turned ? from.size.height : from.size.width;
  const int64_t outputs = turned ? to.height : to.width;
  if (inputs == outputs) return from;
  const int shift = shift_of(inputs, outputs, resampling);
  Image out{to, {}};
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t x = 0; x < to.width; ++x) {
      const Taps taps = taps_of(turned ? y : x, inputs, outputs, resampling.filter);
      for (int64_t c = 0; c < 3; ++c) {
        out.rgb.push_back(weigh(taps, shift, [&](int64_t k) {
          const int64_t pixel = turned ? k * from.size.width + x : y * from.size.width + k;
          return from.rgb[static_cast<size_t>(3 * pixel + c)];
        }));
      }
    }
  }
  return out;
}

}  // namespace

Image resize_plainly(const Image& image, Size to, Resampling resampling) {
  const Image wide = pass(image, {to.width, image.size.height}, resampling, false);
  return pass(wide, to, resampling, true);
}

}  // namespace plimsoll::testing
