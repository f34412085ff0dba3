// Rows of floats to fixed-point ones, for the products of every instruction set.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/round_inputs.h"

namespace plimsoll::backend {
namespace {

static_assert(kLanes == kFixedUnit);

/// 2^power as a float; -126 <= power <= 127.
float power_of_two(int32_t power) {
  const int32_t bits = (power + 127) << 23;
  return load_scalar<float>(&bits);
}

/// The largest power p for which all numbers times 2^p are integers of so many planes, the last of
/// which are signed bytes. `most` has the bits of the largest number, none of NaN's or infinity's.
int32_t power_for(int32_t most, int planes) {
  const float limit = planes == 2 ? 32639.f : 8355711.f;
  if (most == 0) return 0;
  int32_t power = (planes == 2 ? 14 : 22) - ((most >> 23) - 127);
  if (power > 126) return 126;
  if (load_scalar<float>(&most) * power_of_two(power) > limit) --power;
  return power;
}

int32_t reduce(__m256i v, const auto& f) {
  alignas(32) int32_t lanes[kLanes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), v);
  return std::accumulate(lanes + 1, lanes + kLanes, lanes[0], f);
}

/// The sum modulo 2^32: where an input is no number the terms may be beyond what integers hold.
int32_t sum_of(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

/// Bits of the largest of some numbers without its sign: infinity's or NaN's where there is one.
int32_t largest_bits(const float* from, int64_t count) {
  __m256i most = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; i += kFixedUnit) {
    const auto bits = load_as<__m256i>(from + i);
    most = _mm256_max_epi32(most, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
  }
  return reduce(most, [](int32_t a, int32_t b) { return std::max(a, b); });
}

/// The last bytes of a unit's integers.
PLIMSOLL_INLINE void store_plane(__m256i integers, std::byte* to) {
  const __m256i bytes = _mm256_shuffle_epi8(integers, _mm256_set1_epi32(0x0c080400));
  const __m128i both =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), both);
}

PLIMSOLL_INLINE __m256i without_last_byte(__m256i integers) {
  return _mm256_srai_epi32(_mm256_add_epi32(integers, _mm256_set1_epi32(128)), 8);
}

/// The order of columns in units.
class Order {
 public:
  explicit Order(int64_t stride)
      : stride_(stride),
        columns_(_mm256_add_epi32(
            _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3),
                               _mm256_set1_epi32(static_cast<int32_t>(stride))),
            _mm256_setr_epi32(0, 0, 0, 0, second(), second(), second(), second()))) {}
  [[nodiscard]] __m256 load_unit(const float* from, int64_t unit) const {
    const int64_t four = 2 * unit;
    const float* const first = from + four / stride_ * 4 * stride_ + four % stride_;
    if (stride_ > 2) return _mm256_i32gather_ps(first, columns_, sizeof(float));
    return _mm256_permutevar8x32_ps(load(first), columns_);
  }

 private:
  /// The first column of a unit's second four, counted from its first.
  [[nodiscard]] int32_t second() const { return stride_ == 1 ? 4 : 1; }

  int64_t stride_;
  __m256i columns_;
};

/// A chunk's bytes, and its sums.
template <int kPlanes>
void store_chunk(const float* from, int64_t count, float factor, const Order& order, std::byte* to,
                 int32_t* sums) {
  __m256i all = _mm256_setzero_si256(), last = all;
  for (int64_t unit = 0; unit < count / kFixedUnit; ++unit, to += kPlanes * kFixedUnit) {
    const __m256 numbers = _mm256_mul_ps(order.load_unit(from, unit), _mm256_set1_ps(factor));
    const __m256i integers = _mm256_cvtps_epi32(numbers);
    const __m256i upper = without_last_byte(integers);
    if constexpr (kPlanes == 1) {
      all = _mm256_add_epi32(all, integers);
    } else if constexpr (kPlanes == 2) {
      all = _mm256_add_epi32(all, integers);
      store_plane(upper, to);
    } else {
      all = _mm256_add_epi32(all, upper);
      last = _mm256_add_epi32(last, _mm256_sub_epi32(integers, _mm256_slli_epi32(upper, 8)));
      store_plane(without_last_byte(upper), to);
      store_plane(upper, to + kFixedUnit);
    }
    store_plane(integers, to + (kPlanes - 1) * kFixedUnit);
  }
  sums[0] = reduce(all, sum_of);
  sums[1] = reduce(last, sum_of);
}

/// Stores a slice in chunks of which each has a power of two.
void store_slice(const float* from, const FixedRow& row, int64_t slice, const Order& order,
                 std::byte* to, float* scales, int32_t* sums) {
  for (const auto& [c, group, begin, end] : row.chunks(slice)) {
    const int64_t count = end - begin;
    const int32_t most = largest_bits(from + begin, count);
    const bool finite = most < 0x7f800000;
    const int32_t power = finite ? power_for(most, row.planes) : 0;
    // A chunk with an infinity or NaN gets the scale NaN, which makes NaN of every sum that it is
    // in.
    scales[c] = finite ? power_of_two(-power) : __builtin_nanf("");
    const auto store = row.planes == 2 ? store_chunk<2> : store_chunk<3>;
    store(from + begin, count, power_of_two(power), order, to + begin * row.planes, sums + 2 * c);
    if (!finite) sums[2 * c] = sums[2 * c + 1] = 0;
  }
}

/// Stores a slice that is rounded to int8, each group by its largest input / 127 (round_inputs.h).
void store_byte_slice(const float* from, const FixedRow& row, int64_t slice, const Order& order,
                      std::byte* to, float* scales, int32_t* sums) {
  float scale = 0, inverse = 0;
  for (const auto& [c, group, begin, end] : row.chunks(slice)) {
    if (begin % row.rounded == 0) {
      const int32_t most = largest_bits(from + begin, row.rounded);
      // An infinity or NaN makes NaN of every sum that it is in.
      scale = most < 0x7f800000 ? load_scalar<float>(&most) / 127 : __builtin_nanf("");
      inverse = int8_inverse(scale);
    }
    int32_t sum[2];
    store_chunk<1>(from + begin, end - begin, inverse, order, to + begin, sum);
    if (!(scale >= 0)) sum[0] = 0;
    const ByteSums of_chunk{-row.zero * sum[0], static_cast<float>(-sum[0])};
    std::memcpy(sums + 2 * c, &of_chunk, sizeof of_chunk);
    scales[c] = scale;
  }
}

}  // namespace

void store_fixed_row(const float* from, const FixedRow& row, int64_t bits, std::byte* to) {
  const Order order(fixed_stride(bits));
  auto* scales = reinterpret_cast<float*>(to + row.scales_at());
  auto* sums = reinterpret_cast<int32_t*>(to + row.sums_at());
  for (int64_t slice = 0; slice < row.slices; ++slice) {
    if (row.planes == 1) {
      store_byte_slice(from, row, slice, order, to, scales, sums);
    } else {
      store_slice(from, row, slice, order, to, scales, sums);
    }
    from += row.columns;
    to += row.columns * row.planes;
    scales += row.room();
    sums += 2 * row.room();
  }
}

}  // namespace plimsoll::backend
#endif
