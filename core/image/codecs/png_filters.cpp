#include <cstdlib>
#include <cstring>

#include "image/codecs/png_rows.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace plimsoll::image::codecs {
namespace {

/// Whichever of the three is nearest to left + above - corner, in this order.
uint8_t paeth(int left, int above, int corner) {
  const int to_left = std::abs(above - corner), to_above = std::abs(left - corner);
  const int to_corner = std::abs(left + above - 2 * corner);
  if (to_left <= to_above && to_left <= to_corner) return static_cast<uint8_t>(left);
  return static_cast<uint8_t>(to_above <= to_corner ? above : corner);
}

uint8_t predict(PngFilter filter, uint8_t left, uint8_t above, uint8_t corner) {
  switch (filter) {
    case PngFilter::none:
      return 0;
    case PngFilter::left:
      return left;
    case PngFilter::above:
      return above;
    case PngFilter::average:
      return static_cast<uint8_t>((left + above) / 2);
    case PngFilter::paeth:
      return paeth(left, above, corner);
  }
  return 0;
}

#if defined(__SSE2__)
/// A pixel's channels as 16 bits each, beside those of the next.
__m128i load(const uint8_t* pixel) {
  int32_t bytes = 0;
  std::memcpy(&bytes, pixel, sizeof bytes);
  return _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), _mm_setzero_si128());
}

__m128i absolute(__m128i value) {
  return _mm_max_epi16(value, _mm_sub_epi16(_mm_setzero_si128(), value));
}

__m128i choose(__m128i mask, __m128i yes, __m128i no) {
  return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

__m128i nearest(__m128i left, __m128i above, __m128i corner) {
  const __m128i down = _mm_sub_epi16(above, corner), across = _mm_sub_epi16(left, corner);
  const __m128i to_left = absolute(down), to_above = absolute(across);
  const __m128i to_corner = absolute(_mm_add_epi16(down, across));
  const __m128i least = _mm_min_epi16(to_corner, _mm_min_epi16(to_left, to_above));
  return choose(_mm_cmpeq_epi16(least, to_left), left,
                choose(_mm_cmpeq_epi16(least, to_above), above, corner));
}

template <PngFilter kFilter>
__m128i predict(__m128i left, __m128i above, __m128i corner) {
  if constexpr (kFilter == PngFilter::left) return left;
  if constexpr (kFilter == PngFilter::average) return _mm_srli_epi16(_mm_add_epi16(left, above), 1);
  return nearest(left, above, corner);
}

/// Pixel by pixel. Each writes four bytes, of which the fourth is the next one's; the last does
/// not.
template <PngFilter kFilter, size_t kChannels>
void unfilter_pixels(PngRow row) {
  const __m128i bytes = _mm_set1_epi16(255);
  __m128i left = _mm_setzero_si128(), corner = left;
  for (size_t at = 0; at < row.bytes; at += kChannels) {
    const __m128i above = load(row.above + at);
    left = _mm_and_si128(
        _mm_add_epi16(load(row.stored + at), predict<kFilter>(left, above, corner)), bytes);
    corner = above;
    const int32_t levels = _mm_cvtsi128_si32(_mm_packus_epi16(left, left));
    if (at + kChannels < row.bytes) {
      std::memcpy(row.to + at, &levels, sizeof levels);
    } else {
      std::memcpy(row.to + at, &levels, kChannels);
    }
  }
}

template <size_t kChannels>
void unfilter_row(PngFilter filter, const PngRow& row) {
  if (filter == PngFilter::left) return unfilter_pixels<PngFilter::left, kChannels>(row);
  if (filter == PngFilter::average) return unfilter_pixels<PngFilter::average, kChannels>(row);
  unfilter_pixels<PngFilter::paeth, kChannels>(row);
}
#endif

}  // namespace

void unfilter_plainly(PngFilter filter, size_t channels, const PngRow& row) {
  for (size_t i = 0; i < row.bytes; ++i) {
    const uint8_t left = i < channels ? uint8_t{0} : row.to[i - channels];
    const uint8_t corner = i < channels ? uint8_t{0} : row.above[i - channels];
    row.to[i] = static_cast<uint8_t>(row.stored[i] + predict(filter, left, row.above[i], corner));
  }
}

void unfilter(PngFilter filter, size_t channels, const PngRow& row) {
  if (filter == PngFilter::none) {
    std::memcpy(row.to, row.stored, row.bytes);
    return;
  }
  if (filter == PngFilter::above) {
    for (size_t i = 0; i < row.bytes; ++i) {
      row.to[i] = static_cast<uint8_t>(row.stored[i] + row.above[i]);
    }
    return;
  }
#if defined(__SSE2__)
  channels == 3 ? unfilter_row<3>(filter, row) : unfilter_row<4>(filter, row);
#else
  unfilter_plainly(filter, channels, row);
#endif
}

}  // namespace plimsoll::image::codecs
