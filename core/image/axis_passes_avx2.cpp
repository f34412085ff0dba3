// Products of 16-bit weights and levels, summed in pairs (vpmaddwd): exact, as all sums fit in 32
// bits.
#include "image/axis_passes_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

#define PLIMSOLL_AVX2 __attribute__((target("avx2")))

namespace plimsoll::image {
namespace {

constexpr int64_t kRows = 4;       // rows that share the loads of weights
constexpr int64_t kTaps = 4;       // inputs that a sum takes at a time
constexpr int64_t kOverread = 16;  // bytes behind a row's last pixel that may be read
constexpr int64_t kBytes = 32;     // of a column block

/// Weights in 16 bits, each output's filled up with zeros.
struct NarrowAxis {
  std::vector<int16_t> weights;  // [outputs, reach]
  int64_t reach = 0;             // a multiple of kTaps
};

NarrowAxis narrow(const AxisWeights& axis) {
  NarrowAxis to;
  to.reach = (axis.reach + kTaps - 1) / kTaps * kTaps;
  to.weights.resize(axis.count.size() * static_cast<size_t>(to.reach));
  for (size_t i = 0; i < axis.count.size(); ++i) {
    for (int32_t k = 0; k < axis.count[i]; ++k) {
      to.weights[i * static_cast<size_t>(to.reach) + static_cast<size_t>(k)] = static_cast<int16_t>(
          axis.weights[i * static_cast<size_t>(axis.reach) + static_cast<size_t>(k)]);
    }
  }
  return to;
}

bool fits(const AxisWeights& axis) {
  using Narrow = std::numeric_limits<int16_t>;
  return std::ranges::all_of(axis.weights, [](int32_t weight) {
    return weight >= Narrow::min() && weight <= Narrow::max();
  });
}

int32_t half_of(int32_t shift) {
  return shift > 0 ? 1 << (shift - 1) : 0;
}

template <typename T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

using Inputs = std::array<const uint8_t*, kRows>;
using Results = std::array<uint8_t*, kRows>;

/// The two halves' sums together, shifted: red, green, blue and nothing.
PLIMSOLL_AVX2 inline __m128i round_clip(__m256i sums, __m128i shift) {
  return _mm_sra_epi32(
      _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)), shift);
}

/// Sums of one output in each row.
struct PixelSums {
  __m256i pairs, spread, start;
  __m128i shift;

  PLIMSOLL_AVX2 explicit PixelSums(int32_t bits)
      // Lanes have two inputs each, channel by channel: (r0, r1), (g0, g1), (b0, b1), nothing.
      : pairs(_mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                               6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1)),
        spread(_mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,  //
                                4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7)),
        shift(_mm_cvtsi32_si128(bits)) {
    const int32_t half = half_of(bits);
    start = _mm256_setr_epi32(half, half, half, half, 0, 0, 0, 0);
  }
  PLIMSOLL_AVX2 inline __m256i add(__m256i sum, const uint8_t* in, __m256i weights) const {
    const __m256i pixels =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, pairs), weights));
  }
  /// Levels of the rows' pixels, four bytes each, from inputs `at` bytes behind the rows' first.
  PLIMSOLL_AVX2 inline __m128i of(Inputs in, int64_t at, const int16_t* weights,
                                  int32_t count) const {
    __m256i a = start, b = start, c = start, d = start;
    for (int32_t k = 0; k < count; k += kTaps, at += 3 * kTaps) {
      const __m256i weight =
          _mm256_shuffle_epi8(_mm256_set1_epi64x(load<int64_t>(weights + k)), spread);
      a = add(a, in[0] + at, weight);
      b = add(b, in[1] + at, weight);
      c = add(c, in[2] + at, weight);
      d = add(d, in[3] + at, weight);
    }
    return _mm_packus_epi16(_mm_packs_epi32(round_clip(a, shift), round_clip(b, shift)),
                            _mm_packs_epi32(round_clip(c, shift), round_clip(d, shift)));
  }
};

PLIMSOLL_AVX2
void sum_rows(Inputs in, Results out, const AxisWeights& axis, const NarrowAxis& narrowed) {
  const PixelSums sums(axis.shift);
  const int32_t* const first = axis.first.data();
  const int32_t* const count = axis.count.data();
  const int16_t* weights = narrowed.weights.data();
  const int64_t last = std::ssize(axis.first) - 1, reach = narrowed.reach;
  for (int64_t x = 0; x < last; ++x, weights += reach) {
    const __m128i levels = sums.of(in, int64_t{3} * first[x], weights, count[x]);
    // The fourth byte is the next pixel's, which comes later.
    const int32_t four[kRows] = {_mm_cvtsi128_si32(levels), _mm_extract_epi32(levels, 1),
                                 _mm_extract_epi32(levels, 2), _mm_extract_epi32(levels, 3)};
    for (size_t row = 0; row < kRows; ++row) std::memcpy(out[row] + 3 * x, four + row, 4);
  }
  alignas(16) uint8_t levels[4 * kRows];
  _mm_store_si128(reinterpret_cast<__m128i*>(levels),
                  sums.of(in, int64_t{3} * first[last], weights, count[last]));
  for (size_t row = 0; row < kRows; ++row) {
    std::memcpy(out[row] + 3 * last, levels + 4 * row, 3);
  }
}

void across_avx2(const Rows& in, const AxisWeights& axis, uint8_t* out) {
  const NarrowAxis narrowed = narrow(axis);
  const int64_t stride = 3 * in.size.width, to_stride = 3 * std::ssize(axis.first);
  Levels copies(static_cast<size_t>(kRows * (stride + kOverread)), 0);
  Levels spare(static_cast<size_t>(to_stride));
  for (int64_t first = 0; first < in.size.height; first += kRows) {
    const bool whole =
        first + kRows <= in.size.height && (first + kRows) * stride + kOverread <= in.readable;
    Inputs from{};
    Results to{};
    for (int64_t row = 0; row < kRows; ++row) {
      const auto i = static_cast<size_t>(row);
      const bool exists = first + row < in.size.height;
      const uint8_t* source = in.rgb + (exists ? first + row : first) * stride;
      to[i] = exists ? out + (first + row) * to_stride : spare.data();
      from[i] = source;
      if (whole) continue;
      uint8_t* copy = copies.data() + row * (stride + kOverread);
      std::copy_n(source, stride, copy);
      from[i] = copy;
    }
    sum_rows(from, to, axis, narrowed);
  }
}

/// Levels of two rows beside each other, as 16 bits: the order of unpacking is that of packing.
PLIMSOLL_AVX2
inline void add_pair(__m256i (&sums)[4], const uint8_t* first, const uint8_t* second,
                     __m256i weights) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second));
  const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
  const __m256i parts[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                            _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
  for (size_t i = 0; i < 4; ++i) {
    sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(parts[i], weights));
  }
}

/// kBytes of an output row: `count` rows from `in` on.
PLIMSOLL_AVX2
void sum_block(const uint8_t* in, int64_t stride, const int16_t* weights, int32_t count,
               int32_t shift_bits, uint8_t* out) {
  const __m256i start = _mm256_set1_epi32(half_of(shift_bits));
  __m256i sums[4] = {start, start, start, start};
  for (int32_t k = 0; k < count; k += 2) {
    // An odd one is summed with itself, which weighs nothing there.
    const uint8_t* next = k + 1 < count ? in + stride : in;
    add_pair(sums, in, next, _mm256_set1_epi32(load<int32_t>(weights + k)));
    in += 2 * stride;
  }
  const __m128i shift = _mm_cvtsi32_si128(shift_bits);
  for (__m256i& sum : sums) sum = _mm256_sra_epi32(sum, shift);
  const __m256i low = _mm256_packs_epi32(sums[0], sums[1]);
  const __m256i high = _mm256_packs_epi32(sums[2], sums[3]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_packus_epi16(low, high));
}

void down_avx2(const Rows& in, const AxisWeights& axis, uint8_t* out) {
  const NarrowAxis narrowed = narrow(axis);
  const int64_t stride = 3 * in.size.width;
  // Rows shorter than a block are summed in a copy.
  const int64_t width = std::max(stride, kBytes);
  Levels copy, sums(static_cast<size_t>(kBytes));
  const uint8_t* from = in.rgb;
  if (stride < kBytes) {
    copy.assign(static_cast<size_t>(in.size.height * kBytes), 0);
    for (int64_t y = 0; y < in.size.height; ++y) {
      std::copy_n(from + y * stride, stride, copy.data() + y * kBytes);
    }
    from = copy.data();
  }
  for (int64_t y = 0; y < std::ssize(axis.first); ++y) {
    const auto i = static_cast<size_t>(y);
    const int16_t* weights = narrowed.weights.data() + y * narrowed.reach;
    uint8_t* to = out + y * stride;
    const uint8_t* rows = from + axis.first[i] * width;
    if (stride < kBytes) {
      sum_block(rows, width, weights, axis.count[i], axis.shift, sums.data());
      std::copy_n(sums.data(), stride, to);
      continue;
    }
    // The last block overlaps the one before.
    for (int64_t at = 0; at < stride; at += kBytes) {
      const int64_t column = std::min(at, stride - kBytes);
      sum_block(rows + column, width, weights, axis.count[i], axis.shift, to + column);
    }
  }
}

/// Sixteen pixels: each plane's levels from three registers.
PLIMSOLL_AVX2
void split_avx2(const uint8_t* rgb, int64_t pixels, const Planes& planes) {
  alignas(16) int8_t orders[3][3][16];
  for (int c = 0; c < 3; ++c) {
    for (int part = 0; part < 3; ++part) {
      for (int i = 0; i < 16; ++i) {
        const int at = 3 * i + c - 16 * part;
        orders[c][part][i] = static_cast<int8_t>(at >= 0 && at < 16 ? at : -1);
      }
    }
  }
  int64_t x = 0;
  for (; x + 16 <= pixels; x += 16) {
    for (size_t c = 0; c < 3; ++c) {
      __m128i plane = _mm_setzero_si128();
      for (size_t part = 0; part < 3; ++part) {
        const __m128i levels = _mm_loadu_si128(
            reinterpret_cast<const __m128i*>(rgb + 3 * x + 16 * static_cast<int64_t>(part)));
        const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(orders[c][part]));
        plane = _mm_or_si128(plane, _mm_shuffle_epi8(levels, order));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(planes[c] + x), plane);
    }
  }
  for (; x < pixels; ++x) {
    for (size_t c = 0; c < 3; ++c) planes[c][x] = rgb[3 * x + static_cast<int64_t>(c)];
  }
}

}  // namespace

const AxisPasses* avx2_passes() {
  static constexpr AxisPasses kPasses{"avx2", fits, across_avx2, down_avx2, split_avx2};
  return __builtin_cpu_supports("avx2") ? &kPasses : nullptr;
}

}  // namespace plimsoll::image

#else

namespace plimsoll::image {

const AxisPasses* avx2_passes() {
  return nullptr;
}

}  // namespace plimsoll::image

#endif
