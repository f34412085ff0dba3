// Integer products by AMX: tiles of 16 rows by 64 columns; the remaining columns go by dot
// products.
#if defined(__x86_64__)
#include "backend/cpu/kernels/dots/amx.inc.h"
#include "backend/cpu/kernels/dots/integer_vnni.inc.h"

namespace plimsoll::backend {
namespace {

/// Rows from which tiles are faster than dot products.
constexpr int kTileRows = 5;

void multiply_tiles(const IntegerTile& tile, int64_t columns, int32_t* sums) {
  constexpr int64_t kUnitBytes = 4 * kStrip;
  const TileConfig config = config_for(tile.rows);
  _tile_loadconfig(&config);
  zero_sums();
  for (int64_t k = 0; k < columns; k += kIntegerBlock) {
    const std::byte* const codes = tile.codes + k / 4 * kUnitBytes;
    _tile_loadd(6, codes, kUnitBytes);
    _tile_loadd(7, codes + 64, kUnitBytes);
    _tile_loadd(4, tile.a + k, tile.stride);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    if (tile.rows <= 16) continue;
    _tile_loadd(5, tile.a + 16 * tile.stride + k, tile.stride);
    _tile_dpbsud(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
  }
  store_sums(tile.rows, sums, kStrip * int64_t{sizeof(int32_t)});
  _tile_release();
}

}  // namespace

void integer_amx(const IntegerTile& tile) {
  alignas(64) int32_t sums[kIntegerRows * kStrip] = {};
  const int64_t whole = tile.rows < kTileRows ? 0 : tile.columns / kIntegerBlock * kIntegerBlock;
  if (whole > 0) multiply_tiles(tile, whole, sums);
  if (whole < tile.columns) add_all_dots(tile, whole, sums);
  finish_integers(tile, sums);
}

}  // namespace plimsoll::backend
#endif
