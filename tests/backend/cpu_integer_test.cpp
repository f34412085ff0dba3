// Products of int8: every instruction set gives the sums of the formula, which are exact.
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "backend/cpu/kernels/dots/integer.h"
#include "backend/cpu/layout.h"
#include "backend/cpu_fixture.h"
#include "base/rounding.h"

namespace plimsoll::testing {
namespace {

using backend::IntegerTile;
using backend::kStrip;

/// Random rows and a random strip of codes, laid out for a product.
struct IntegerCase {
  int rows;
  int64_t columns, stride;
  std::vector<int8_t> a;
  std::vector<float> row_scales, scales;
  std::vector<int32_t> row_sums;
  std::vector<uint8_t> codes;

  IntegerCase(int row_count, int64_t column_count)
      : rows(row_count),
        columns(column_count),
        stride(round_up(column_count, backend::kIntegerBlock)),
        a(static_cast<size_t>(rows * stride)),
        codes(static_cast<size_t>(round_up(columns, 4) * kStrip)) {
    std::mt19937 random(static_cast<uint32_t>(rows * 1000 + columns));
    for (int r = 0; r < rows; ++r) {
      int32_t sum = 0;
      for (int64_t k = 0; k < columns; ++k) {
        const auto value = static_cast<int8_t>(random() % 256);
        a[static_cast<size_t>(r * stride + k)] = value;
        sum += value;
      }
      row_sums.push_back(sum);
      row_scales.push_back(0.25f + 0.5f * static_cast<float>(r));
    }
    for (uint8_t& code : codes) code = static_cast<uint8_t>(random() % 256);
    for (int o = 0; o < kStrip; ++o) scales.push_back(1.f / static_cast<float>(1 << o % 8));
  }

  [[nodiscard]] std::vector<float> product(backend::IntegerProduct multiply) const {
    std::vector<float> c(static_cast<size_t>(rows * kStrip), -1.f);
    multiply({.a = a.data(),
              .stride = stride,
              .row_scales = row_scales.data(),
              .row_sums = row_sums.data(),
              .rows = rows,
              .codes = reinterpret_cast<const std::byte*>(codes.data()),
              .columns = columns,
              .scales = scales.data(),
              .zero = 128,
              .c = c.data()});
    return c;
  }

  [[nodiscard]] std::vector<float> expected() const {
    std::vector<float> c;
    for (int r = 0; r < rows; ++r)
      for (int64_t o = 0; o < kStrip; ++o) {
        int64_t sum = 0;
        for (int64_t k = 0; k < columns; ++k) {
          const int code = codes[static_cast<size_t>(k / 4 * 4 * kStrip + o * 4 + k % 4)];
          sum += int64_t{code - 128} * a[static_cast<size_t>(r * stride + k)];
        }
        c.push_back(static_cast<float>(sum) * scales[static_cast<size_t>(o)] *
                    row_scales[static_cast<size_t>(r)]);
      }
    return c;
  }
};

TEST_CASE("products of integers are exact for every instruction set, number of rows and columns") {
  for (const CpuIsa isa : isas())
    for (const int rows : {1, 2, 4, 5, 12, 13, 16, 17, 31, 32})
      for (const int64_t columns : {32, 63, 64, 66, 128, 200}) {
        CAPTURE(isa_name(isa), rows, columns);
        const IntegerCase c(rows, columns);
        if (const auto multiply = backend::integer_product(isa))
          REQUIRE(c.product(multiply) == c.expected());
#if defined(__x86_64__)
        // Kernels without tiles, which processors with tiles do not take by themselves.
        if (isa >= CpuIsa::avx512 && __builtin_cpu_supports("avx512vnni") != 0)
          REQUIRE(c.product(backend::integer_vnni) == c.expected());
#endif
        if (isa == CpuIsa::avx512 && can_run_twin_of_tiles())
          REQUIRE(c.product(multiply_integers_by_twin) == c.expected());
      }
}

}  // namespace
}  // namespace plimsoll::testing
