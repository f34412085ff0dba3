#include <algorithm>
#include <cmath>
#include <numbers>

#include "image/resample.h"

namespace plimsoll::image {
namespace {

constexpr int32_t kPillowShift = 22;

double reach_of(Filter filter) {
  return filter == Filter::bilinear ? 1 : filter == Filter::bicubic ? 2 : 3;
}

double sinc(double x) {
  if (x == 0) return 1;
  return std::sin(x * std::numbers::pi) / (x * std::numbers::pi);
}

/// The filter at distance x >= 0.
double weight_at(Filter filter, double x) {
  switch (filter) {
    case Filter::nearest:
      return 0;  // has no weights
    case Filter::bilinear:
      return x < 1 ? 1 - x : 0;
    case Filter::bicubic: {  // Keys 1981, a = -0.5
      constexpr double a = -0.5;
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
    }
    case Filter::lanczos:
      return x < 3 ? sinc(x) * sinc(x / 3) : 0;
  }
  return 0;
}

/// torchvision keeps weights in 16 bits: the first fraction whose next one would not fit, for the
/// largest weight.
int32_t torchvision_shift(double largest) {
  int32_t shift = 0;
  while (shift < kPillowShift &&
         static_cast<int64_t>(0.5 + largest * static_cast<double>(int64_t{1} << (shift + 1))) <
             (int64_t{1} << 15)) {
    ++shift;
  }
  return shift;
}

int32_t round_away(double x) {
  return static_cast<int32_t>(x < 0 ? x - 0.5 : x + 0.5);
}

/// The nearest input of each output, as torchvision computes it ("nearest exact"): in float32.
AxisWeights nearest_inputs(int64_t inputs, int64_t outputs, Outputs some) {
  const float scale = static_cast<float>(inputs) / static_cast<float>(outputs);
  AxisWeights axis{.first = {}, .count = {}, .weights = {}, .reach = 1, .shift = 0};
  for (int64_t i = some.first; i < some.first + some.count; ++i) {
    const auto input = static_cast<int64_t>(std::floor((static_cast<float>(i) + 0.5f) * scale));
    axis.first.push_back(static_cast<int32_t>(std::min(input, inputs - 1)));
  }
  axis.count.assign(axis.first.size(), 1);
  axis.weights = axis.count;
  return axis;
}

}  // namespace

AxisWeights axis_weights(int64_t inputs, int64_t outputs, Resampling resampling) {
  return axis_weights(inputs, outputs, resampling, {0, outputs});
}

AxisWeights axis_weights(int64_t inputs, int64_t outputs, Resampling resampling, Outputs some) {
  if (resampling.filter == Filter::nearest) return nearest_inputs(inputs, outputs, some);
  const double scale = static_cast<double>(inputs) / static_cast<double>(outputs);
  const double stretch = std::max(scale, 1.0);
  const double support = reach_of(resampling.filter) * stretch;
  AxisWeights axis;
  axis.reach = static_cast<int32_t>(std::ceil(support)) * 2 + 1;
  std::vector<double> weights(static_cast<size_t>(some.count * axis.reach));
  std::vector<double> other(static_cast<size_t>(axis.reach));
  double largest = 0;
  for (int64_t i = 0; i < outputs; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const auto end = std::min(inputs, static_cast<int64_t>(center + support + 0.5));
    const int64_t number = i - some.first;
    const bool is_asked = number >= 0 && number < some.count;
    double* row = is_asked ? weights.data() + number * axis.reach : other.data();
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      const double distance = (static_cast<double>(x) - center + 0.5) * (1 / stretch);
      row[x - first] = weight_at(resampling.filter, std::abs(distance));
      sum += row[x - first];
    }
    for (int64_t x = first; x < end && sum != 0; ++x) {
      row[x - first] /= sum;
      largest = std::max(largest, row[x - first]);
    }
    if (!is_asked) continue;
    axis.first.push_back(static_cast<int32_t>(first));
    axis.count.push_back(static_cast<int32_t>(end - first));
  }
  axis.shift = resampling.fraction == Fraction::pillow ? kPillowShift : torchvision_shift(largest);
  const auto one = static_cast<double>(int64_t{1} << axis.shift);
  axis.weights.resize(weights.size());
  std::ranges::transform(weights, axis.weights.begin(),
                         [one](double weight) { return round_away(weight * one); });
  return axis;
}

}  // namespace plimsoll::image
