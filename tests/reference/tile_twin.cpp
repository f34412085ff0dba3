#include "reference/tile_twin.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace plimsoll::testing::tile_twin {
namespace {

constexpr int kTiles = 8, kMostRows = 16, kMostBytes = 64;

struct Tile {
  int rows = 0;
  int bytes = 0;  // of a row
  std::array<std::array<uint8_t, kMostBytes>, kMostRows> data{};

  template <typename T>
  [[nodiscard]] T get(int row, int column) const {
    T value;
    std::memcpy(&value, data[static_cast<size_t>(row)].data() + column * int{sizeof value},
                sizeof value);
    return value;
  }
  template <typename T>
  void set(int row, int column, T value) {
    std::memcpy(data[static_cast<size_t>(row)].data() + column * int{sizeof value}, &value,
                sizeof value);
  }
};

thread_local std::array<Tile, kTiles> tiles;

void fault_unless(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

Tile& configured(int tile) {
  Tile& found = tiles.at(static_cast<size_t>(tile));
  fault_unless(found.rows > 0, "a tile that is not configured");
  return found;
}

/// Below the normal numbers there is zero.
float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x;
}

float from_bf16(uint16_t bits) {
  return flushed(std::bit_cast<float>(uint32_t{bits} << 16));
}

/// f(m, n) for each sum, where the three shapes fit.
template <typename F>
void for_sums(int sums, int rows, int weights, F f) {
  fault_unless(sums != rows && sums != weights && rows != weights, "one tile twice");
  Tile& to = configured(sums);
  const Tile& a = configured(rows);
  const Tile& b = configured(weights);
  fault_unless(to.rows == a.rows && to.bytes == b.bytes && a.bytes / 4 == b.rows, "shapes differ");
  for (int m = 0; m < to.rows; ++m)
    for (int n = 0; n < to.bytes / 4; ++n) f(to, a, b, m, n);
}

}  // namespace

void load_config(const void* config) {
  std::array<uint8_t, 64> bytes{};
  std::memcpy(bytes.data(), config, bytes.size());
  fault_unless(bytes[0] == 1 && bytes[1] == 0, "palette and first row are not 1 and 0");
  for (size_t i = 2; i < 16; ++i) fault_unless(bytes[i] == 0, "reserved bytes are set");
  for (size_t i = 0; i < 16; ++i) {
    const int row_bytes = bytes[16 + 2 * i] | bytes[17 + 2 * i] << 8;
    const int rows = bytes[48 + i];
    fault_unless(row_bytes <= kMostBytes && rows <= kMostRows && (row_bytes > 0) == (rows > 0) &&
                     (i < kTiles || rows == 0),
                 "a tile's shape");
    if (i < kTiles) {
      tiles[i] = {};
      tiles[i].rows = rows;
      tiles[i].bytes = row_bytes;
    }
  }
}

void release() {
  tiles = {};
}

void zero(int tile) {
  configured(tile).data = {};
}

void load(int tile, const void* from, int64_t stride) {
  Tile& to = configured(tile);
  to.data = {};
  for (int r = 0; r < to.rows; ++r)
    std::memcpy(to.data[static_cast<size_t>(r)].data(),
                static_cast<const uint8_t*>(from) + r * stride, static_cast<size_t>(to.bytes));
}

void store(int tile, void* to, int64_t stride) {
  const Tile& from = configured(tile);
  for (int r = 0; r < from.rows; ++r)
    std::memcpy(static_cast<uint8_t*>(to) + r * stride, from.data[static_cast<size_t>(r)].data(),
                static_cast<size_t>(from.bytes));
}

void dot_bf16(int sums, int rows, int weights) {
  for_sums(sums, rows, weights, [](Tile& to, const Tile& a, const Tile& b, int m, int n) {
    float chains[2] = {0, 0};
    for (int k = 0; k < b.rows; ++k)
      for (int i = 0; i < 2; ++i)
        chains[i] = flushed(std::fma(from_bf16(a.get<uint16_t>(m, 2 * k + i)),
                                     from_bf16(b.get<uint16_t>(k, 2 * n + i)), chains[i]));
    to.set(m, n, flushed(flushed(to.get<float>(m, n)) + flushed(chains[0] + chains[1])));
  });
}

void dot_int8_uint8(int sums, int rows, int weights) {
  for_sums(sums, rows, weights, [](Tile& to, const Tile& a, const Tile& b, int m, int n) {
    auto sum = to.get<int32_t>(m, n);
    for (int k = 0; k < b.rows; ++k)
      for (int i = 0; i < 4; ++i)
        sum += int32_t{a.get<int8_t>(m, 4 * k + i)} * int32_t{b.get<uint8_t>(k, 4 * n + i)};
    to.set(m, n, sum);
  });
}

}  // namespace plimsoll::testing::tile_twin
