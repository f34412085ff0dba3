// Products in tiles of bf16, by the twin of their instructions.
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/kernels/dots/bf16_tiles.h"
#include "backend/cpu_fixture.h"
#include "reference/tile_twin.h"
#include "skipped.h"

namespace plimsoll::testing {
namespace {

using backend::Bf16Tile;
using backend::kBf16Block;
using backend::kStrip;

/// Random rows and a random strip, numbers below the normal ones among them.
struct Bf16Case {
  int rows;
  int64_t columns, stride;
  std::vector<uint16_t> a, weight;

  Bf16Case(int row_count, int64_t column_count)
      : rows(row_count),
        columns(column_count),
        stride(backend::bf16_stride(column_count)),
        a(static_cast<size_t>(rows * stride)),
        weight(static_cast<size_t>(columns * kStrip)) {
    std::mt19937 random(static_cast<uint32_t>(rows * 1000 + columns));
    const auto fill = [&](auto begin, auto end) {
      for (; begin != end; ++begin) {
        const auto sign_and_fraction = static_cast<uint16_t>(random() & 0x807f);
        const auto exponent = random() % 16 == 0 ? 0 : 120 + random() % 12;
        *begin = static_cast<uint16_t>(sign_and_fraction | exponent << 7);
      }
    };
    for (int r = 0; r < rows; ++r) fill(a.begin() + r * stride, a.begin() + r * stride + columns);
    fill(weight.begin(), weight.end());
  }

  /// The bits of [rows][32] floats.
  [[nodiscard]] std::vector<uint32_t> product(void (*multiply)(const Bf16Tile&)) const {
    std::vector<float> c(static_cast<size_t>(rows) * kStrip,
                         std::numeric_limits<float>::quiet_NaN());
    multiply({.a = a.data(),
              .stride = stride,
              .rows = rows,
              .weight = reinterpret_cast<const std::byte*>(weight.data()),
              .columns = columns,
              .c = c.data(),
              .c_stride = kStrip});
    std::vector<uint32_t> bits(c.size());
    std::memcpy(bits.data(), c.data(), c.size() * sizeof(float));
    return bits;
  }
};

TEST_CASE("tiles of bf16 give the bits of vectors, whatever rows and columns there are") {
  if (!can_run_twin_of_tiles()) return skip("this processor has no AVX-512 VNNI");
  for (const int rows : {1, 4, 5, 12, 15, 16, 17, 18, 31, 32})
    for (const int64_t columns : {2, 30, 32, 34, 64, 94, 256}) {
      CAPTURE(rows, columns);
      const Bf16Case c(rows, columns);
      REQUIRE(c.product(multiply_bf16_by_twin) == c.product(multiply_bf16_by_vectors));
#if defined(__x86_64__)
      if (const backend::TileProduct own = backend::bf16_tiles(CpuIsa::avx512))
        REQUIRE(c.product(own) == c.product(multiply_bf16_by_twin));
#endif
    }
}

TEST_CASE("the twin of the tile instructions refuses what the processor faults at") {
  struct Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 32};
    uint8_t rows[16] = {16, 16, 16, 16};
  };
  Config config;
  tile_twin::load_config(&config);
  CHECK_NOTHROW(tile_twin::dot_bf16(0, 1, 2));
  CHECK_THROWS_WITH(tile_twin::dot_bf16(0, 1, 1), "one tile twice");
  CHECK_THROWS_WITH(tile_twin::dot_int8_uint8(0, 1, 3), "shapes differ");
  CHECK_THROWS_WITH(tile_twin::zero(4), "a tile that is not configured");
  config.rows[2] = 17;
  CHECK_THROWS_WITH(tile_twin::load_config(&config), "a tile's shape");
  config.palette = 2;
  CHECK_THROWS_WITH(tile_twin::load_config(&config), "palette and first row are not 1 and 0");
  tile_twin::release();
  CHECK_THROWS_WITH(tile_twin::zero(0), "a tile that is not configured");
}

}  // namespace
}  // namespace plimsoll::testing
