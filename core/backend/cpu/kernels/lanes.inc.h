// A vector of outputs of a quantized matrix: its codes, scales and zero points.
#pragma once

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/layout.h"

namespace plimsoll::backend {
namespace {

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

/// Position of a vector of outputs in a tile's strips.
struct Lanes {
  const std::byte* codes;
  const std::byte* scales;
  const float* minimums;
  const uint8_t* zeros;
  const float* factors;

  Lanes() = default;
  Lanes(const PackedTile& tile, int vector) {
    constexpr int kOfStrip = static_cast<int>(kStrip) / kLanes;
    const auto strip = static_cast<size_t>(vector / kOfStrip);
    const int lane = vector % kOfStrip * kLanes;
    codes = tile.codes + strip * tile.strip_codes + lane * 4;
    scales = tile.scales + strip * tile.strip_scales + lane * model::scale_bytes(tile.scale);
    minimums = tile.minimums == nullptr
                   ? nullptr
                   : tile.minimums + strip * (tile.strip_scales / sizeof(float)) + lane;
    zeros = tile.zeros == nullptr ? nullptr : tile.zeros + strip * tile.strip_zeros + lane;
    factors = tile.factors == nullptr ? nullptr : tile.factors + vector * kLanes;
  }
  [[gnu::always_inline]] Vf scale(const PackedTile& tile, int64_t group) const {
    const int64_t at = group * kStrip * model::scale_bytes(tile.scale);
    const Vf scale = load_scale(scales + at, tile.scale);
    return factors == nullptr ? scale : scale * load(factors);
  }
  [[gnu::always_inline]] Vf minimum(int64_t group) const { return load(minimums + group * kStrip); }
  [[gnu::always_inline]] Vi zero_point(const PackedTile& tile, int64_t group) const {
    Vi point = splat_int(static_cast<int32_t>(tile.packing->zero));
    if (zeros != nullptr) point += load_bytes(zeros + group * kStrip);
    return point;
  }
  [[gnu::always_inline]] Vf zero(const PackedTile& tile, int64_t group) const {
    return to_float(zero_point(tile, group));
  }
};

}  // namespace
}  // namespace plimsoll::backend
