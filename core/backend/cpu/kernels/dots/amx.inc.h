// Use of AMX tiles that all products here share: up to 32 rows times one strip of 32 outputs.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace plimsoll::backend {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

/// Sums are tiles 0 to 3, [row half][column half]; rows 4 and 5, weights 6 and 7.
TileConfig config_for(int rows) {
  TileConfig config;
  const auto upper = static_cast<uint8_t>(rows < 16 ? rows : 16);
  const auto lower = static_cast<uint8_t>(rows <= 16 ? 1 : rows - 16);  // unused with one row
  const uint8_t counts[8] = {upper, upper, lower, lower, upper, lower, 16, 16};
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = counts[i];
    config.bytes[i] = 64;
  }
  return config;
}

void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

/// Stores sums to [rows][32] of 4 bytes, rows `stride` bytes apart.
void store_sums(int rows, void* to, int64_t stride) {
  auto* const at = static_cast<uint8_t*>(to);
  _tile_stored(0, at, stride);
  _tile_stored(1, at + 64, stride);
  if (rows <= 16) return;
  _tile_stored(2, at + 16 * stride, stride);
  _tile_stored(3, at + 16 * stride + 64, stride);
}

}  // namespace
}  // namespace plimsoll::backend
