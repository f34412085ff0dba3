// Rows of int8, as products with blocks of GGUF files have them where inputs are rounded: what they
// hold, and that products with them are the formula's to the bit.
#include <algorithm>

#include "backend/cpu/round_inputs.h"
#include "backend/fixed_rows.h"
#include "like_cases.h"

namespace plimsoll::testing {
namespace {

TEST_CASE("rows of int8 are the nearest multiples of each group's largest input / 127") {
  if (fixed_kernels().empty()) return;
  constexpr int32_t kZero = 8;
  for (const int64_t bits : {2, 3, 4, 5, 6, 8})
    for (const auto& [group, rounded] : {std::pair{16, 32}, {32, 32}, {16, 256}, {32, 256}}) {
      CAPTURE(bits, group, rounded);
      const FixedRow row{1, 2, 512, group, 0, rounded, kZero};
      std::vector<float> in = normal_row(2 * row.columns);
      for (size_t i = 256; i < 512; ++i) in[i] = 0;
      for (size_t i = 512; i < 768; ++i) in[i] *= 1e-41f;  // their scale has no inverse
      in[900] = -1e30f;
      std::vector<float> expected(in.size());
      const auto rounding =
          rounded == 32 ? model::InputRounding::int8_group32 : model::InputRounding::int8_group256;
      backend::round_inputs(in.data(), 2 * row.columns, {.rounding = rounding}, {},
                            expected.data());
      const StoredRow stored(row, in, bits);
      for (const auto& [c, begin, end] : all_chunks(row)) {
        int64_t sum = 0;
        for (int64_t k = begin; k < end; ++k) {
          sum += stored.integer(k);
          REQUIRE(static_cast<float>(stored.integer(k)) * stored.scale(c) ==
                  expected[static_cast<size_t>(k)]);
        }
        REQUIRE(stored.sum(c, 0) == -kZero * sum);
        REQUIRE(std::bit_cast<float>(stored.sum(c, 1)) == static_cast<float>(-sum));
      }
    }
}

TEST_CASE("products of rows of int8 have the formula's bits, whatever rows are beside them") {
  constexpr int kRows = 21;  // in tiles of 12, 8 and 1
  size_t number = 0;
  for (const FixedKernels* fixed : fixed_kernels())
    for (const int64_t group : {16, 32})
      for (const auto& [bits, as, largest] : kCodeKinds)
        for (const int code : {-1, largest}) {
          const FixedWeight codes(bits, as, code, group);
          if (as == FixedCodes::levels || !suits_rows(*fixed, codes, 1)) continue;
          if (!is_taken_sanitized(number++, 5)) continue;
          const FixedRow row{.planes = 1,
                             .slices = 1,
                             .columns = FixedWeight::kColumns,
                             .group = group,
                             .lead = 0,
                             .rounded = 32,
                             .zero = backend::fixed_zero(codes.packing)};
          std::vector<StoredRow> stored;
          for (int r = 0; r < kRows; ++r) {
            std::vector<float> in = normal_row(FixedWeight::kColumns);
            for (float& x : in) x *= std::ldexp(1.f, r);
            if (r % 2 == 1) std::fill(in.begin(), in.end(), r % 4 == 1 ? 5.f : -5.f);  // 127
            stored.emplace_back(row, in, bits);
          }
          check_products(*fixed, codes, row, stored);
        }
}

}  // namespace
}  // namespace plimsoll::testing
