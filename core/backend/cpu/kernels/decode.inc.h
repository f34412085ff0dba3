// Decodes codes of quantized weights to the numbers that they stand for, exactly: a vector of
// outputs and one column at a time.
#pragma once

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/packed_layout.h"

namespace plimsoll::backend {
namespace {

/// (v & mask) | with.
PLIMSOLL_INLINE Vi masked_or(Vi v, Vi mask, Vi with) {
#if defined(__AVX512F__)
  return (Vi)_mm512_ternarylogic_epi32((__m512i)v, (__m512i)mask, (__m512i)with, 0xEA);
#else
  return (v & mask) | with;
#endif
}

/// Numbers 0 to 15 looked up by the lowest 4 bits of each lane.
class Lookup {
 public:
#if defined(__AVX512F__)
  explicit Lookup(const float* numbers) : numbers_(load(numbers)) {}
  [[gnu::always_inline]] Vf operator()(Vi code) const {
    return _mm512_permutexvar_ps((__m512i)code, numbers_);
  }

 private:
  Vf numbers_;
#elif defined(__AVX2__)
  explicit Lookup(const float* numbers) : low_(load(numbers)), high_(load(numbers + kLanes)) {}
  [[gnu::always_inline]] Vf operator()(Vi code) const {
    const Vf below = _mm256_permutevar8x32_ps(low_, (__m256i)code);
    const Vf above = _mm256_permutevar8x32_ps(high_, (__m256i)code);
    return select((code & 8) != 0, above, below);
  }

 private:
  Vf low_, high_;
#else
  explicit Lookup(const float* numbers) : numbers_(numbers) {}
  [[gnu::always_inline]] Vf operator()(Vi code) const {
    Vf result{};
    for (int i = 0; i < kLanes; ++i) result[i] = numbers_[code[i] & 15];
    return result;
  }

 private:
  const float* numbers_;
#endif
};

// A decoder's load() takes the words of the kColumns columns that column `k` is of to registers,
// and number() is column `j` of them, less the group's zero point.

/// The word of column `k` where each holds `columns` of them.
PLIMSOLL_INLINE const std::byte* word_of(const std::byte* codes, int64_t k, int64_t columns) {
  return codes + k / columns * 4 * kStrip;
}

/// Reads codes that are floats already, less their zero points.
struct FloatsDecoder {
  using Words = Vf;
  static constexpr int64_t kColumns = 1;
  explicit FloatsDecoder(const PackedTile&) {}
  [[gnu::always_inline]] static Words load(const std::byte* codes, int64_t k) {
    return load_as<Vf>(word_of(codes, k, kColumns));
  }
  [[gnu::always_inline]] static Vf number(const Words& word, int64_t, Vf) { return word; }
};

/// Fields of a word, lowest bits first.
template <int kBits>
struct Fields {
  using Words = Vi;
  static constexpr int64_t kColumns = 32 / kBits;
  [[gnu::always_inline]] static Words load(const std::byte* codes, int64_t k) {
    return load_as<Vi>(word_of(codes, k, kColumns));
  }
  /// The word shifted so that the field of column `j` is lowest.
  [[gnu::always_inline]] static Vi shifted(Words word, int64_t j) {
    return word >> splat_int(static_cast<int32_t>(j) * kBits);
  }
};

struct TwoBitsDecoder : Fields<2> {
  explicit TwoBitsDecoder(const PackedTile&) {}
  [[gnu::always_inline]] static Vf number(Vi word, int64_t j, Vf zero) {
    return to_float(shifted(word, j) & 3) - zero;
  }
};

/// Decodes 4 bits to one of 16 numbers.
struct TableDecoder : Fields<4> {
  Lookup lookup;
  explicit TableDecoder(const PackedTile& tile) : lookup(tile.table) {}
  [[gnu::always_inline]] Vf number(Vi word, int64_t j, Vf) const {
    return lookup(shifted(word, j));
  }
};

/// Decodes integers of 4 bits by the same look-up, without mask and conversion.
struct FourBitsDecoder : TableDecoder {
  using TableDecoder::TableDecoder;
  [[gnu::always_inline]] Vf number(Vi word, int64_t j, Vf zero) const {
    return lookup(shifted(word, j)) - zero;
  }
};

/// A float that counts ones in bit `place` of its mantissa: with a code there it is 2^(23 - place)
/// and the code. Neither a shift nor a conversion is needed to get at it, and all of it is exact.
PLIMSOLL_INLINE Vi counting_from(int32_t place) {
  return splat_int((127 + 23 - place) << 23);
}

/// Decodes integers of 8 bits, in the two lower bytes of a word and of its upper half.
struct BytesDecoder {
  struct Words {
    Vi low, high;
  };
  static constexpr int64_t kColumns = 4;
  explicit BytesDecoder(const PackedTile&) {}
  [[gnu::always_inline]] static Words load(const std::byte* codes, int64_t k) {
    const Vi word = load_as<Vi>(word_of(codes, k, kColumns));
    return {word, word >> splat_int(16)};
  }
  [[gnu::always_inline]] static Vf number(const Words& words, int64_t j, Vf zero) {
    const int32_t place = static_cast<int32_t>(j % 2) * 8;
    const Vi base = counting_from(place);
    const Vi code = masked_or(j < 2 ? words.low : words.high, splat_int(0xff << place), base);
    return from_bits(code) - (from_bits(base) + zero);
  }
};

/// Decodes codes whose `kUpper` upper bits lie in a word of their own (CodeUnit).
template <int kLower, int kUpper>
struct SplitDecoder {
  static constexpr CodeUnit kUnit{kLower + kUpper};
  struct Words {
    Vi lower[kLower / 2], upper;
  };
  static constexpr int64_t kColumns = CodeUnit::kRun;
  explicit SplitDecoder(const PackedTile&) {}
  [[gnu::always_inline]] static Words load(const std::byte* codes, int64_t k) {
    const std::byte* const unit = codes + k / kUnit.columns * kUnit.words * 4 * kStrip;
    const int64_t run = k % kUnit.columns / kColumns;
    Words words;
    for (int w = 0; w < kLower / 2; ++w)
      words.lower[w] = load_as<Vi>(unit + (run * (kLower / 2) + w) * 4 * kStrip);
    words.upper = load_as<Vi>(unit + (kUnit.words - 1) * 4 * kStrip) >>
                  splat_int(static_cast<int32_t>(4 * run));
    return words;
  }
  [[gnu::always_inline]] static Vf number(const Words& words, int64_t j, Vf zero) {
    const CodeUnit::Place low = kUnit.lower_place(j);
    const auto high = static_cast<int32_t>(kUnit.upper_place(j).bit);
    const Vi lower = (words.lower[low.word] >> splat_int(static_cast<int32_t>(low.bit))) &
                     splat_int((1 << kLower) - 1);
    const Vi upper = (words.upper >> splat_int(high)) & splat_int((1 << kUpper) - 1);
    return to_float(lower | upper << splat_int(kLower)) - zero;
  }
};

#if defined(__AVX512BW__)
/// Decodes float8 by way of bf16, which has all of its numbers: two at a time in the halves of a
/// lane.
struct E4m3Decoder {
  struct Words {
    Vi even, odd;  // columns 0 and 2, columns 1 and 3
  };
  static constexpr int64_t kColumns = 4;
  explicit E4m3Decoder(const PackedTile&) {}
  [[gnu::always_inline]] Words load(const std::byte* codes, int64_t k) const {
    const __m512i word = load_as<__m512i>(word_of(codes, k, kColumns));
    return {pairs(word, _mm512_slli_epi16(word, 8)), pairs(_mm512_srli_epi16(word, 8), word)};
  }
  [[gnu::always_inline]] static Vf number(const Words& words, int64_t j, Vf) {
    const Vi pair = j % 2 == 0 ? words.even : words.odd;
    return j < 2 ? first_of_pair(pair) : second_of_pair(pair);
  }

 private:
  /// The numbers of codes in the lower bytes of 16 bits, whose signs are the highest bits of
  /// `signs`.
  [[gnu::always_inline]] Vi pairs(__m512i codes, __m512i signs) const {
    const __m512i size = _mm512_and_si512(codes, _mm512_set1_epi16(0x7f));
    const __m512i normal =
        _mm512_add_epi16(_mm512_slli_epi16(size, 4), _mm512_set1_epi16(120 << 7));
    const __mmask32 small = _mm512_cmplt_epu16_mask(size, _mm512_set1_epi16(8));
    const __m512i number = _mm512_mask_permutexvar_epi16(normal, small, size, subnormal_);
    return (Vi)_mm512_ternarylogic_epi32(signs, _mm512_set1_epi16(int16_t(0x8000)), number, 0xEA);
  }

  /// 0 to 7 times 2^-9.
  __m512i subnormal_ = _mm512_castsi128_si512(
      _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
};
#else
/// Decodes float8: as bits of a float its exponent is 120 too small. Numbers below 2^-6 come out as
/// 2^-7 and half of themselves; as denormal floats they would cost hundreds of cycles.
struct E4m3Decoder {
  using Words = Vi;
  static constexpr int64_t kColumns = 4;
  explicit E4m3Decoder(const PackedTile&) {}
  [[gnu::always_inline]] static Words load(const std::byte* codes, int64_t k) {
    return load_as<Vi>(word_of(codes, k, kColumns));
  }
  [[gnu::always_inline]] static Vf number(Vi word, int64_t j, Vf) {
    const Vi top = word << splat_int(24 - 8 * static_cast<int32_t>(j));
    const Vi size = (top >> 4) & 0x07f00000;
    const Vf normal = from_bits(size + (120 << 23));
    const Vf half = normal - splat(0x1p-7f);
    const Vf number = select((size & 0x07800000) == 0, half + half, normal);
    return from_bits(bits(number) | (top & static_cast<int32_t>(0x80000000u)));
  }
};
#endif

}  // namespace
}  // namespace plimsoll::backend
