// Codes of quantised weights to floats: (number - zero) * scale, each rounded once.
#pragma once

#include "backend/cpu/kernels.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/packed_layout.h"
#include "backend/cpu/vec.h"

namespace plimsoll::backend {
namespace {

constexpr int kUnpackVectors = static_cast<int>(kStrip) / kLanes;

PLIMSOLL_INLINE Vf to_float(Vi v) {
  return __builtin_convertvector(v, Vf);
}

/// Code of column `j` of a unit, for a vector of rows.
template <int kBits>
struct Fields {
  static constexpr int kWords = 1;
  static constexpr int64_t kColumns = 32 / kBits;
  PLIMSOLL_INLINE Vi code(const std::byte* unit, int64_t j) {
    return (load_as<Vi>(unit) >> splat_int(static_cast<int32_t>(j) * kBits)) & ((1 << kBits) - 1);
  }
};

/// 3 bits, one in each of three words.
struct BitPlanes {
  static constexpr int kWords = 3;
  static constexpr int64_t kColumns = 32;
  PLIMSOLL_INLINE Vi code(const std::byte* unit, int64_t j) {
    const Vi shift = splat_int(static_cast<int32_t>(j));
    Vi code = (load_as<Vi>(unit) >> shift) & 1;
    code |= ((load_as<Vi>(unit + 4 * kStrip) >> shift) & 1) << 1;
    return code | ((load_as<Vi>(unit + 8 * kStrip) >> shift) & 1) << 2;
  }
};

struct IntegerNumber {
  static constexpr bool kHasZero = true;
  explicit IntegerNumber(const float*) {}
  [[gnu::always_inline]] Vf operator()(Vi code) const { return to_float(code); }
};

struct E4m3Number {
  static constexpr bool kHasZero = false;
  explicit E4m3Number(const float*) {}
  [[gnu::always_inline]] Vf operator()(Vi code) const { return e4m3_number(code); }
};

/// One of 16 numbers.
struct TableNumber {
  static constexpr bool kHasZero = false;
#if defined(__AVX512F__)
  Vf table;
  explicit TableNumber(const float* numbers) : table(load(numbers)) {}
  [[gnu::always_inline]] Vf operator()(Vi code) const {
    return _mm512_permutexvar_ps((__m512i)code, table);
  }
#elif defined(__AVX2__)
  Vf low, high;
  explicit TableNumber(const float* numbers) : low(load(numbers)), high(load(numbers + kLanes)) {}
  [[gnu::always_inline]] Vf operator()(Vi code) const {
    const Vf below = _mm256_permutevar8x32_ps(low, (__m256i)code);
    const Vf above = _mm256_permutevar8x32_ps(high, (__m256i)code);
    return select(code > 7, above, below);
  }
#else
  const float* table;
  explicit TableNumber(const float* numbers) : table(numbers) {}
  [[gnu::always_inline]] Vf operator()(Vi code) const {
    Vf result{};
    for (int i = 0; i < kLanes; ++i) result[i] = table[code[i]];
    return result;
  }
#endif
};

PLIMSOLL_INLINE Vf load_scale(const std::byte* from, model::ScaleType type) {
  switch (type) {
    case model::ScaleType::f16:
      return load_f16(from);
    case model::ScaleType::bf16:
      return load_bf16(from);
    case model::ScaleType::e4m3:
      return e4m3_number(load_bytes(from));
    case model::ScaleType::e8m0: {
      const Vi exponent = load_bytes(from);
      // 2^-127 is no normal float.
      return from_bits(exponent == 0 ? splat_int(1 << 22) : exponent << 23);
    }
    default:
      return load_as<Vf>(from);
  }
}

struct GroupScales {
  Vf scale[kUnpackVectors];
  Vf zero[kUnpackVectors];

  GroupScales(const UnpackTile& tile, int64_t group) {
    const int64_t size = model::scale_bytes(tile.scale);
    for (int v = 0; v < kUnpackVectors; ++v) {
      const int64_t at = (group - tile.first_group) * kStrip + v * kLanes;
      scale[v] = load_scale(tile.scales + at * size, tile.scale);
      if (tile.factors != nullptr) scale[v] *= load(tile.factors + v * kLanes);
      Vi point = splat_int(static_cast<int32_t>(tile.packing->zero));
      if (tile.zeros != nullptr) point += load_bytes(tile.zeros + group * kStrip + v * kLanes);
      zero[v] = to_float(point);
    }
  }
};

/// The group of column k, and the first column after it that may be of another.
struct GroupRun {
  int64_t group;
  int64_t end;

  GroupRun(const UnpackTile& tile, int64_t k) {
    const int64_t size = tile.packing->group > 0 ? tile.packing->group : tile.columns;
    group = tile.order != nullptr ? tile.order[k] : k / size;
    end = tile.order != nullptr ? k + 1 : (group + 1) * size;
    while (tile.order != nullptr && end < tile.k_end && tile.order[end] == group) ++end;
    if (end > tile.k_end) end = tile.k_end;
  }
};

template <typename Codes, typename Number>
void unpack_as(const UnpackTile& tile) {
  const Number number(tile.table);
  float* out = tile.out;
  for (int64_t k = tile.k_begin; k < tile.k_end;) {
    const GroupRun run(tile, k);
    const GroupScales scales(tile, run.group);
    for (; k < run.end; ++k, out += kStrip) {
      const std::byte* unit = tile.codes + k / Codes::kColumns * (Codes::kWords * 4 * kStrip);
#pragma GCC unroll 8
      for (int v = 0; v < kUnpackVectors; ++v) {
        Vf value = number(Codes::code(unit + v * kLanes * 4, k % Codes::kColumns));
        if constexpr (Number::kHasZero) value -= scales.zero[v];
        store(out + v * kLanes, value * scales.scale[v]);
      }
    }
  }
}

void unpack(const UnpackTile& tile) {
  switch (tile.packing->code) {
    case model::Code::e4m3:
      return unpack_as<Fields<8>, E4m3Number>(tile);
    case model::Code::table:
      return unpack_as<Fields<4>, TableNumber>(tile);
    case model::Code::integer:
      break;
  }
  switch (tile.packing->bits) {
    case 2:
      return unpack_as<Fields<2>, IntegerNumber>(tile);
    case 3:
      return unpack_as<BitPlanes, IntegerNumber>(tile);
    case 4:
      return unpack_as<Fields<4>, IntegerNumber>(tile);
    default:
      return unpack_as<Fields<8>, IntegerNumber>(tile);
  }
}

}  // namespace
}  // namespace plimsoll::backend
