// Fixed-point rows: what they hold, and that products with them are the formula's to the bit.
#include <limits>

#include "backend/fixed_rows.h"

namespace plimsoll::testing {
namespace {

TEST_CASE("fixed-point rows are the nearest multiples of each chunk's power of two") {
  if (fixed_kernels().empty()) return;
  for (const int planes : {2, 3})
    for (const int64_t bits : {2, 3, 4, 5, 6, 8})
      for (const int64_t group : {0, 1, 3, 16, 25}) {  // blocks
        CAPTURE(planes, bits, group);
        const int64_t block = backend::fixed_block(bits);
        const int64_t slices = 2, columns = 608;
        const FixedRow row{planes, slices, columns, group * block, group > 2 ? block : 0};
        std::vector<float> in = normal_row(slices * columns);
        in[5] = 1e30f;
        for (size_t i = 128; i < 256; ++i) in[i] *= 1e-30f;
        for (size_t i = 400; i < 608; ++i) in[i] = 0;
        in[700] = 0.9999f * std::ldexp(1.f, 9);  // beyond the largest integer by the lesser power
        const StoredRow stored(row, in, bits);
        int64_t read = 0;
        for (const auto& [c, begin, end] : all_chunks(row)) {
          REQUIRE(begin == read);
          read = end;
          int64_t sum = 0;
          float most = 0;
          for (int64_t k = begin; k < end; ++k) {
            const double value = static_cast<double>(in[static_cast<size_t>(k)]);
            const double step = static_cast<double>(stored.scale(c));
            REQUIRE(std::abs(static_cast<double>(stored.integer(k)) * step - value) <= step / 2);
            sum += stored.integer(k);
            most = std::max(most, std::fabs(in[static_cast<size_t>(k)]));
          }
          if (most > 0) REQUIRE(stored.scale(c) <= most * std::ldexp(1.f, planes == 2 ? -13 : -21));
          REQUIRE((planes == 2 ? stored.sum(c, 0)
                               : int64_t{256} * stored.sum(c, 0) + stored.sum(c, 1)) == sum);
        }
        REQUIRE(read == slices * columns);
      }
}

TEST_CASE("products of fixed-point rows have the formula's bits, whatever rows are beside them") {
  for (const FixedKernels* fixed : fixed_kernels())
    for (const int planes : {2, 3})
      for (const auto& [bits, as, largest] : kCodeKinds) {
        if (!suits_rows(*fixed, FixedWeight(bits, as), planes)) continue;
        const FixedRow row{planes, 1, FixedWeight::kColumns, FixedWeight::kGroup, 32};
        std::vector<StoredRow> stored;
        for (int r = 0; r < backend::kFixedRows; ++r) {
          std::vector<float> in = normal_row(FixedWeight::kColumns);
          for (float& x : in) x *= std::ldexp(1.f, r);
          in[static_cast<size_t>(r)] = -3;
          stored.emplace_back(row, in, bits);
        }
        check_products(*fixed, FixedWeight(bits, as), row, stored);
      }
}

TEST_CASE("the largest codes and inputs do not overflow") {
  for (const FixedKernels* fixed : fixed_kernels())
    for (const int planes : {2, 3})
      for (const auto& [bits, as, largest] : kCodeKinds) {
        if (!suits_rows(*fixed, FixedWeight(bits, as), planes)) continue;
        // No groups, so that chunks are whole; all bytes are -127, or 127.
        const FixedRow row{planes, 1, FixedWeight::kColumns, 0, 0};
        const float most = planes == 2 ? 32639.f : 8355711.f;
        std::vector<StoredRow> stored;
        for (const float input : {most, -most})
          stored.emplace_back(row, std::vector(FixedWeight::kColumns, input), bits);
        FixedWeight codes(bits, as, largest);
        codes.packing.group = 0;
        check_products(*fixed, codes, row, stored);
      }
}

TEST_CASE("a chunk with an input that is no number makes none of its row's sums") {
  const auto planes = GENERATE(1, 2);
  const int64_t group = planes == 1 ? 32 : FixedWeight::kGroup;
  const FixedWeight codes(4, FixedCodes::integers, -1, planes == 1 ? group : 0);
  const backend::PackedTile weight = codes.tile();
  const FixedRow row{planes, 1, FixedWeight::kColumns, group, planes == 1 ? 0 : 32, 32, 3};
  const FixedChunks chunks = row.chunks(0);
  for (const float wrong :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> in = normal_row(FixedWeight::kColumns);
    in[100] = wrong;
    for (const FixedKernels* fixed : fixed_kernels()) {
      const StoredRow stored(row, in, 4);
      std::vector<float> c(static_cast<size_t>(kStrip));
      fixed->multiply({.weight = &weight,
                       .planes = row.planes,
                       .chunks = &chunks,
                       .a = stored.bytes.data(),
                       .scales = stored.bytes.data() + row.scales_at(),
                       .sums = stored.bytes.data() + row.sums_at(),
                       .stride = row.bytes(),
                       .rows = 1,
                       .c = c.data()});
      for (const float x : c) REQUIRE(std::isnan(x));
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing
