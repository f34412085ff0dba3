// Codes of quantised weights to the numbers that they stand for, exactly: a vector of outputs and
// one column at a time.
#pragma once

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/layout.h"

namespace plimsoll::backend {
namespace {

PLIMSOLL_INLINE Vf to_float(Vi v) {
  return __builtin_convertvector(v, Vf);
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

// A decoder's unit is kWords words that hold kColumns columns of each output; number() is column
// `j` of the unit, less the group's zero point.

/// Fields of a word, lowest bits first.
template <int kBits>
struct Fields {
  using Words = Vi;
  static constexpr int kWords = 1;
  static constexpr int64_t kColumns = 32 / kBits;
  [[gnu::always_inline]] static Words load(const std::byte* unit) { return load_as<Vi>(unit); }
  /// The field and what lies above it.
  [[gnu::always_inline]] static Vi shifted(Words word, int64_t j) {
    return word >> splat_int(static_cast<int32_t>(j) * kBits);
  }
};

template <int kBits>
struct IntegerDecoder : Fields<kBits> {
  explicit IntegerDecoder(const PackedTile&) {}
  [[gnu::always_inline]] Vf number(Vi word, int64_t j, Vf zero) const {
    return to_float(Fields<kBits>::shifted(word, j) & ((1 << kBits) - 1)) - zero;
  }
};

/// One of 16 numbers, which have no zero points of groups.
struct TableDecoder : Fields<4> {
  Lookup lookup;
  explicit TableDecoder(const PackedTile& tile) : lookup(tile.table) {}
  [[gnu::always_inline]] Vf number(Vi word, int64_t j, Vf) const {
    return lookup(shifted(word, j));
  }
};

/// 3 bits, one in each of three words.
struct PlanesDecoder {
  struct Words {
    Vi plane[3];
  };
  static constexpr int kWords = 3;
  static constexpr int64_t kColumns = 32;
  explicit PlanesDecoder(const PackedTile&) {}
  [[gnu::always_inline]] static Words load(const std::byte* unit) {
    return {{load_as<Vi>(unit), load_as<Vi>(unit + 4 * kStrip), load_as<Vi>(unit + 8 * kStrip)}};
  }
  [[gnu::always_inline]] Vf number(const Words& words, int64_t j, Vf zero) const {
    const Vi shift = splat_int(static_cast<int32_t>(j));
    Vi code = (words.plane[0] >> shift) & 1;
    code |= ((words.plane[1] >> shift) & 1) << 1;
    code |= ((words.plane[2] >> shift) & 1) << 2;
    return to_float(code) - zero;
  }
};

/// A float8: as bits of a float its exponent is 120 too small. Numbers below 2^-6 come out of that
/// as 2^-7 and half of themselves; as denormal floats they would cost hundreds of cycles.
struct E4m3Decoder : Fields<8> {
  explicit E4m3Decoder(const PackedTile&) {}
  [[gnu::always_inline]] Vf number(Vi word, int64_t j, Vf) const {
    const Vi top = word << splat_int(24 - 8 * static_cast<int32_t>(j));
    const Vi size = (top >> 4) & 0x07f00000;
    const Vf normal = from_bits(size + (120 << 23));
    const Vf half = normal - splat(0x1p-7f);
    const Vf number = select((size & 0x07800000) == 0, half + half, normal);
    return from_bits(bits(number) | (top & static_cast<int32_t>(0x80000000u)));
  }
};

}  // namespace
}  // namespace plimsoll::backend
