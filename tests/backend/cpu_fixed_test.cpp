// Fixed-point rows: what they hold, and that products with them are the formula's to the bit.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/layout.h"
#include "backend/cpu_fixture.h"

namespace plimsoll::testing {
namespace {

using backend::FixedChunks;
using backend::FixedKernels;
using backend::FixedRow;
using backend::kFixedUnit;
using backend::kStrip;

/// A stored row, read back.
struct Stored {
  const FixedRow& row;
  std::vector<std::byte> bytes;

  Stored(const FixedKernels& kernels, const FixedRow& layout, const std::vector<float>& from,
         int64_t bits)
      : row(layout), bytes(static_cast<size_t>(layout.bytes())), nibbles_(bits == 4) {
    kernels.store(from.data(), row, bits, bytes.data());
  }
  [[nodiscard]] int64_t integer(int64_t column) const {
    const int64_t place = column % kFixedUnit;
    const int64_t lane = nibbles_ ? place / 2 + place % 2 * 4 : place;
    int64_t value = 0;
    for (int p = 0; p < row.planes; ++p) {
      const int64_t at = (column / kFixedUnit * row.planes + p) * kFixedUnit + lane;
      value = value * 256 + static_cast<int8_t>(bytes[static_cast<size_t>(at)]);
    }
    return value;
  }
  /// Of all slices' chunks.
  [[nodiscard]] float scale(int64_t chunk) const {
    return number<float>(row.scales_at() + 4 * chunk);
  }
  [[nodiscard]] int32_t sum(int64_t chunk, int part) const {
    return number<int32_t>(row.sums_at() + 8 * chunk + 4 * part);
  }

 private:
  template <typename T>
  [[nodiscard]] T number(int64_t at) const {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }
  bool nibbles_;
};

std::vector<float> random_row(int64_t columns) {
  std::mt19937 random(static_cast<uint32_t>(columns));
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> row(static_cast<size_t>(columns));
  for (float& x : row) x = normal(random);
  return row;
}

const FixedKernels* kernels() {
  const FixedKernels* found = nullptr;
  for (const CpuIsa isa : isas())
    if (backend::fixed_kernels(isa) != nullptr) found = backend::fixed_kernels(isa);
  if (found == nullptr) WARN("this processor has no products of fixed-point rows");
  return found;
}

TEST_CASE("fixed-point rows are the nearest multiples of each chunk's power of two") {
  const FixedKernels* const fixed = kernels();
  if (fixed == nullptr) return;
  for (const int planes : {2, 3})
    for (const int64_t bits : {4, 8})
      for (const int64_t group : {0, 16, 24, 128, 200}) {
        CAPTURE(planes, bits, group);
        const int64_t slices = 2, columns = 600;
        const FixedRow row{planes, slices, columns, group, group > 16 ? 8 : 0};
        std::vector<float> in = random_row(slices * columns);
        in[5] = 1e30f;
        for (size_t i = 128; i < 256; ++i) in[i] *= 1e-30f;
        for (size_t i = 400; i < 600; ++i) in[i] = 0;
        in[700] = 0.9999f * std::ldexp(1.f, 9);  // beyond the largest integer by the lesser power
        const Stored stored(*fixed, row, in, bits);
        int64_t read = 0;
        for (int64_t c = 0; c < slices * row.room(); ++c) {
          const int64_t chunk = c % row.room(), start = c / row.room() * columns;
          const FixedChunks chunks = row.chunks(c / row.room());
          if (chunk >= chunks.count) continue;
          const int64_t begin = start + chunks.begin(chunk);
          const int64_t end = start + chunks.end(chunk);
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

/// Products with 4- or 8-bit codes in groups of 48, one scale each, zero point 3.
class Codes {
 public:
  static constexpr int64_t kColumns = 240, kGroup = 48;
  model::Packing packing;
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  explicit Codes(int64_t bits) : packing{.bits = bits, .group = kGroup, .zero = 3} {
    std::mt19937 random(1);
    for (int64_t i = 0; i < kStrip * kColumns; ++i)
      codes.push_back(static_cast<uint8_t>(random() % (1u << bits)));
    for (int64_t i = 0; i < kStrip * (kColumns / kGroup + 1); ++i)
      scales.push_back(0.01f * static_cast<float>(1 + random() % 100));
    const int64_t in_word = 32 / bits;
    words_.resize(static_cast<size_t>(kColumns / in_word * kStrip));
    for (int64_t o = 0; o < kStrip; ++o)
      for (int64_t k = 0; k < kColumns; ++k)
        words_[static_cast<size_t>(k / in_word * kStrip + o)] |= uint32_t{code(o, k)}
                                                                 << k % in_word * bits;
  }
  [[nodiscard]] uint8_t code(int64_t o, int64_t k) const {
    return codes[static_cast<size_t>(o * kColumns + k)];
  }
  [[nodiscard]] backend::PackedTile tile() const {
    return {.packing = &packing,
            .codes = reinterpret_cast<const std::byte*>(words_.data()),
            .scales = reinterpret_cast<const std::byte*>(scales.data()),
            .columns = kColumns};
  }
  /// The formula of fixed.h, rounded as it says.
  [[nodiscard]] float product(const Stored& in, int64_t o) const {
    float total = 0;
    const FixedChunks chunks = in.row.chunks(0);
    for (int64_t c = 0; c < chunks.count; ++c) {
      int64_t upper = 0, last = 0;
      for (int64_t k = chunks.begin(c); k < chunks.end(c); ++k) {
        const int64_t number = code(o, k) - packing.zero;
        const int64_t byte = in.row.planes == 2 ? 0 : static_cast<int8_t>(in.integer(k) & 0xff);
        upper += number * (in.row.planes == 2 ? in.integer(k) : (in.integer(k) - byte) / 256);
        last += number * byte;
      }
      auto sum = static_cast<float>(upper);
      if (in.row.planes == 3) sum = std::fma(sum, 256.f, static_cast<float>(last));
      const auto at = static_cast<size_t>(chunks.group_of(c) * kStrip + o);
      total = std::fma(sum, scales[at] * in.scale(c), total);
    }
    return total;
  }

 private:
  std::vector<uint32_t> words_;
};

TEST_CASE("products of fixed-point rows have the formula's bits, whatever rows are beside them") {
  const FixedKernels* const fixed = kernels();
  if (fixed == nullptr) return;
  for (const int planes : {2, 3})
    for (const int64_t bits : {4, 8}) {
      const Codes codes(bits);
      const backend::PackedTile weight = codes.tile();
      const FixedRow row{planes, 1, Codes::kColumns, Codes::kGroup, 16};
      const FixedChunks chunks = row.chunks(0);
      const int64_t stride = row.bytes();
      std::vector<Stored> stored;
      std::vector<std::byte> rows;
      for (int r = 0; r < backend::kFixedRows; ++r) {
        std::vector<float> in = random_row(Codes::kColumns);
        for (float& x : in) x *= std::ldexp(1.f, r);
        in[static_cast<size_t>(r)] = -3;
        stored.emplace_back(*fixed, row, in, bits);
        rows.insert(rows.end(), stored.back().bytes.begin(), stored.back().bytes.end());
      }
      for (int count = 1; count <= backend::kFixedRows; ++count) {
        std::vector<float> c(static_cast<size_t>(count * kStrip));
        fixed->multiply({.weight = &weight,
                         .planes = row.planes,
                         .chunks = &chunks,
                         .a = rows.data(),
                         .scales = rows.data() + row.scales_at(),
                         .sums = rows.data() + row.sums_at(),
                         .stride = stride,
                         .rows = count,
                         .c = c.data()});
        for (int r = 0; r < count; ++r)
          for (int64_t o = 0; o < kStrip; ++o) {
            CAPTURE(planes, bits, count, r, o);
            REQUIRE(c[static_cast<size_t>(r * kStrip + o)] ==
                    codes.product(stored[static_cast<size_t>(r)], o));
          }
      }
    }
}

TEST_CASE("a chunk with an input that is no number makes none of its row's sums") {
  const FixedKernels* const fixed = kernels();
  if (fixed == nullptr) return;
  const Codes codes(4);
  const backend::PackedTile weight = codes.tile();
  const FixedRow row{2, 1, Codes::kColumns, Codes::kGroup, 16};
  const FixedChunks chunks = row.chunks(0);
  for (const float wrong :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> in = random_row(Codes::kColumns);
    in[100] = wrong;
    const Stored stored(*fixed, row, in, 4);
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

}  // namespace
}  // namespace plimsoll::testing
