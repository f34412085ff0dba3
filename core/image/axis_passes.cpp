#include "image/axis_passes.h"

#include <algorithm>

#include "image/axis_passes_avx2.h"

// One source, compiled for each instruction set, of which the loader takes the machine's best:
// integers, so that all of them give the same bits.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define PLIMSOLL_WIDEST "arch=x86-64-v4"
#else  // does not know that name
#define PLIMSOLL_WIDEST "avx512f"
#endif
#define PLIMSOLL_CLONES \
  __attribute__((target_clones("default", "avx2", PLIMSOLL_WIDEST), optimize("O3")))
#else
#define PLIMSOLL_CLONES
#endif

namespace plimsoll::image {
namespace {

/// Sums that are kept in registers.
constexpr int64_t kLanes = 32;

/// One output of an axis for many lines at once: line l's input k is in[k * stride + l].
struct Sum {
  const uint8_t* in;
  int64_t stride;
  const int32_t* weights;
  int32_t count;
  int32_t shift;
};

inline uint8_t round_clip(int32_t sum, int32_t shift) {
  return static_cast<uint8_t>(std::clamp(sum >> shift, 0, 255));
}

PLIMSOLL_CLONES
void weigh(uint8_t* out, const Sum& sum, int64_t lines) {
  const int32_t half = sum.shift > 0 ? 1 << (sum.shift - 1) : 0;
  int64_t line = 0;
  for (; line + kLanes <= lines; line += kLanes) {
    int32_t sums[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) sums[i] = half;
    const uint8_t* in = sum.in + line;
    for (int32_t k = 0; k < sum.count; ++k, in += sum.stride) {
      const int32_t weight = sum.weights[k];
      for (int64_t i = 0; i < kLanes; ++i) sums[i] += weight * in[i];
    }
    for (int64_t i = 0; i < kLanes; ++i) out[line + i] = round_clip(sums[i], sum.shift);
  }
  for (; line < lines; ++line) {
    int32_t total = half;
    for (int32_t k = 0; k < sum.count; ++k) {
      total += sum.weights[k] * sum.in[k * sum.stride + line];
    }
    out[line] = round_clip(total, sum.shift);
  }
}

Sum sum_of(const AxisWeights& axis, int64_t output, const uint8_t* in, int64_t stride) {
  const auto i = static_cast<size_t>(output);
  return {in + axis.first[i] * stride, stride, axis.weights.data() + output * axis.reach,
          axis.count[i], axis.shift};
}

/// Columns are summed over many rows at once, which lie beside each other in a turned copy of them:
/// [width * 3, kLanes].
void across(const Rows& in, const AxisWeights& axis, uint8_t* out) {
  const int64_t width = std::ssize(axis.first);
  Levels turned(static_cast<size_t>(3 * in.size.width * kLanes), 0);
  uint8_t sums[3 * kLanes];
  for (int64_t first = 0; first < in.size.height; first += kLanes) {
    const int64_t rows = std::min(kLanes, in.size.height - first);
    for (int64_t row = 0; row < rows; ++row) {
      const uint8_t* from = in.rgb + (first + row) * in.size.width * 3;
      for (int64_t i = 0; i < 3 * in.size.width; ++i) {
        turned[static_cast<size_t>(i * kLanes + row)] = from[i];
      }
    }
    for (int64_t x = 0; x < width; ++x) {
      weigh(sums, sum_of(axis, x, turned.data(), 3 * kLanes), 3 * kLanes);
      uint8_t* to = out + 3 * (first * width + x);
      for (int64_t row = 0; row < rows; ++row, to += 3 * width) {
        for (int64_t c = 0; c < 3; ++c) to[c] = sums[c * kLanes + row];
      }
    }
  }
}

void down(const Rows& in, const AxisWeights& axis, uint8_t* out) {
  const int64_t stride = 3 * in.size.width;
  for (int64_t y = 0; y < std::ssize(axis.first); ++y) {
    weigh(out + y * stride, sum_of(axis, y, in.rgb, stride), stride);
  }
}

void split(const uint8_t* rgb, int64_t pixels, const Planes& planes) {
  for (size_t c = 0; c < planes.size(); ++c) {
    for (int64_t x = 0; x < pixels; ++x) planes[c][x] = rgb[3 * x + static_cast<int64_t>(c)];
  }
}

bool takes_all(const AxisWeights& /*axis*/) {
  return true;
}

std::vector<AxisPasses> find_passes() {
  std::vector<AxisPasses> all;
  if (const AxisPasses* avx2 = avx2_passes()) all.push_back(*avx2);
  all.push_back({"plain", takes_all, across, down, split});
  return all;
}

}  // namespace

std::span<const AxisPasses> axis_passes() {
  static const std::vector<AxisPasses> kAll = find_passes();
  return kAll;
}

}  // namespace plimsoll::image
