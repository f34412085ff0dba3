// Fixed-point rows: what they hold, and that products with them are the formula's to the bit.
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/packed_layout.h"
#include "backend/cpu/round_inputs.h"
#include "backend/cpu_fixture.h"

namespace plimsoll::testing {
namespace {

using backend::FixedChunks;
using backend::FixedCodes;
using backend::FixedKernels;
using backend::FixedRow;
using backend::kFixedUnit;
using backend::kStrip;

/// Kernels of fixed-point rows that this processor has.
std::set<const FixedKernels*> kernels() {
  std::set<const FixedKernels*> found;
  for (const CpuIsa isa : isas()) found.insert(backend::fixed_kernels(isa));
  found.erase(nullptr);
  if (found.empty()) WARN("this processor has no products of fixed-point rows");
  return found;
}

/// A row as all kernels store it, read back.
struct Stored {
  const FixedRow& row;
  std::vector<std::byte> bytes;

  Stored(const FixedRow& layout, const std::vector<float>& from, int64_t bits)
      : row(layout),
        bytes(static_cast<size_t>(layout.bytes())),
        stride_(backend::fixed_stride(bits)) {
    (*kernels().begin())->store(from.data(), row, bits, bytes.data());
  }
  [[nodiscard]] int64_t integer(int64_t column) const {
    const int64_t block = column / (4 * stride_), inside = column % (4 * stride_);
    const int64_t four = block * stride_ + inside % stride_;
    int64_t value = 0;
    for (int p = 0; p < row.planes; ++p) {
      const int64_t at = (four / 2 * row.planes + p) * kFixedUnit + four % 2 * 4 + inside / stride_;
      value = value * 256 + static_cast<int8_t>(bytes[static_cast<size_t>(at)]);
    }
    return value;
  }
  /// The scale of a chunk, chunks of all slices counted.
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
  int64_t stride_;
};

std::vector<float> random_row(int64_t columns) {
  std::mt19937 random(static_cast<uint32_t>(columns));
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> row(static_cast<size_t>(columns));
  for (float& x : row) x = normal(random);
  return row;
}

/// The chunks of all slices: index of a chunk's scale and sums, and its range of inputs.
struct Chunk {
  int64_t at, begin, end;
};
std::vector<Chunk> all_chunks(const FixedRow& row) {
  std::vector<Chunk> all;
  for (int64_t slice = 0; slice < row.slices; ++slice)
    for (const auto& [index, group, begin, end] : row.chunks(slice)) {
      REQUIRE(index < row.room());
      const int64_t lead = row.group > 0 ? (row.lead + slice * row.columns) % row.group : 0;
      if (begin < end && row.group > 0) REQUIRE(group == (lead + begin) / row.group);
      all.push_back(
          {slice * row.room() + index, slice * row.columns + begin, slice * row.columns + end});
    }
  return all;
}

TEST_CASE("fixed-point rows are the nearest multiples of each chunk's power of two") {
  if (kernels().empty()) return;
  for (const int planes : {2, 3})
    for (const int64_t bits : {2, 3, 4, 5, 6, 8})
      for (const int64_t group : {0, 1, 3, 16, 25}) {  // blocks
        CAPTURE(planes, bits, group);
        const int64_t block = backend::fixed_block(bits);
        const int64_t slices = 2, columns = 608;
        const FixedRow row{planes, slices, columns, group * block, group > 2 ? block : 0};
        std::vector<float> in = random_row(slices * columns);
        in[5] = 1e30f;
        for (size_t i = 128; i < 256; ++i) in[i] *= 1e-30f;
        for (size_t i = 400; i < 608; ++i) in[i] = 0;
        in[700] = 0.9999f * std::ldexp(1.f, 9);  // beyond the largest integer by the lesser power
        const Stored stored(row, in, bits);
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

TEST_CASE("rows of int8 are the nearest multiples of each group's largest input / 127") {
  if (kernels().empty()) return;
  constexpr int32_t kZero = 8;
  for (const int64_t bits : {2, 3, 4, 5, 6, 8})
    for (const auto& [group, rounded] : {std::pair{16, 32}, {32, 32}, {16, 256}, {32, 256}}) {
      CAPTURE(bits, group, rounded);
      const FixedRow row{1, 2, 512, group, 0, rounded, kZero};
      std::vector<float> in = random_row(2 * row.columns);
      for (size_t i = 256; i < 512; ++i) in[i] = 0;
      for (size_t i = 512; i < 768; ++i) in[i] *= 1e-41f;  // their scale has no inverse
      in[900] = -1e30f;
      std::vector<float> expected(in.size());
      const auto rounding =
          rounded == 32 ? model::InputRounding::int8_group32 : model::InputRounding::int8_group256;
      backend::round_inputs(in.data(), 2 * row.columns, {.rounding = rounding}, {},
                            expected.data());
      const Stored stored(row, in, bits);
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

/// Twice what codes of e2m1 stand for.
constexpr std::array<int64_t, 16> kHalves = {0, 1,  2,  3,  4,  6,  8,  12,
                                             0, -1, -2, -3, -4, -6, -8, -12};

/// Integers of a table of ggml (IQ4_NL).
constexpr std::array<int64_t, 16> kBytes = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

/// Levels like those of bitsandbytes: no multiples of anything.
constexpr std::array<float, 16> kLevels = {-1,     -0.7f, -0.53f,  -0.39f, -0.28f, -0.18f,
                                           -0.09f, 0,     0.0796f, 0.16f,  0.25f,  0.34f,
                                           0.44f,  0.56f, 0.72f,   0.9f};

/// Products with codes in groups of 96, one scale each: integers whose zero point is 3, or numbers.
class Codes {
 public:
  static constexpr int64_t kColumns = 480, kGroup = 96;
  model::Packing packing;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> minimums;  // of codes of 2 and of 5 bits

  /// `all`: the code of all weights; -1: random ones. `group`, where it is not 0: inputs that share
  /// a scale, for rows of int8, as blocks of ggml have them.
  Codes(int64_t bits, FixedCodes as, int all = -1, int64_t group = 0)
      : packing{.bits = bits,
                .group = group == 0 ? kGroup : group,
                .zero = as == FixedCodes::integers ? 3 : 0} {
    if (as != FixedCodes::integers) packing.code = model::Code::table;
    if (as == FixedCodes::halves) packing.format = model::PackedFormat::nvfp4;
    if (as == FixedCodes::signed_bytes || group > 0) packing.scale = model::ScaleType::blocks;
    if (group > 0) {
      packing.blocks = as == FixedCodes::halves ? GgmlType::mxfp4 : GgmlType::iq4_nl;
      packing.inputs = model::InputRounding::int8_group32;
    }
    factor_ = as == FixedCodes::halves && group == 0 ? 0.5f : 1;  // ggml's numbers are doubled
    for (size_t i = 0; i < table_.size(); ++i)
      table_[i] = as == FixedCodes::levels         ? kLevels[i]
                  : as == FixedCodes::signed_bytes ? static_cast<float>(kBytes[i])
                                                   : factor_ * static_cast<float>(kHalves[i]);
    std::mt19937 random(1);
    for (int64_t i = 0; i < kStrip * kColumns; ++i)
      codes.push_back(static_cast<uint8_t>(all < 0 ? random() % (1u << bits) : all));
    for (int64_t i = 0; i < kStrip * (kColumns / packing.group + 1); ++i)
      scales.push_back(0.01f * static_cast<float>(1 + random() % 100));
    if (bits == 2 || bits == 5) minimums.assign(scales.rbegin(), scales.rend());
    words_.resize(static_cast<size_t>(kColumns * bits / 32 * kStrip));
    for (int64_t o = 0; o < kStrip; ++o)
      for (int64_t k = 0; k < kColumns; ++k) set(o, k);
  }
  [[nodiscard]] uint8_t code(int64_t o, int64_t k) const {
    return codes[static_cast<size_t>(o * kColumns + k)];
  }
  [[nodiscard]] backend::PackedTile tile() const {
    return {.packing = &packing,
            .strips = 1,
            .codes = reinterpret_cast<const std::byte*>(words_.data()),
            .scales = reinterpret_cast<const std::byte*>(scales.data()),
            .minimums = minimums.empty() ? nullptr : minimums.data(),
            .table = table_.data(),
            .columns = kColumns};
  }
  /// The formula of fixed.h with rows of int8, rounded as it says.
  [[nodiscard]] float product_of_bytes(const Stored& in, int64_t o) const {
    float total = 0, part = 0;
    for (const backend::FixedChunk& chunk : in.row.chunks(0)) {
      const auto at = static_cast<size_t>(chunk.group * kStrip + o);
      int64_t sum = 0;
      for (int64_t k = chunk.begin; k < chunk.end; ++k) sum += number(code(o, k)) * in.integer(k);
      part = std::fma(static_cast<float>(sum), scales[at], part);
      if (!minimums.empty())
        part = std::fma(minimums[at], std::bit_cast<float>(in.sum(chunk.index, 1)), part);
      if (chunk.end % in.row.rounded != 0) continue;
      total = std::fma(part, in.scale(chunk.index), total);
      part = 0;
    }
    return total;
  }
  /// The formula of fixed.h, rounded as it says.
  [[nodiscard]] float product(const Stored& in, int64_t o) const {
    float total = 0;
    for (const backend::FixedChunk& chunk : in.row.chunks(0)) {
      const auto at = static_cast<size_t>(chunk.group * kStrip + o);
      const auto sum = [&](const auto& number) { return this->sum(in, o, chunk, number); };
      float of_chunk = 0, factor = factor_;
      if (backend::fixed_codes(packing) == FixedCodes::levels) {
        factor = 1.f / 32767;
        // Bytes of the level, the upper one signed.
        of_chunk = std::fma(sum([&](int code) { return level(code) >> 8; }), 256.f,
                            sum([&](int code) { return level(code) & 255; }));
      } else {
        of_chunk = sum([&](int code) { return number(code); });
      }
      total = std::fma(of_chunk, scales[at] * factor * in.scale(chunk.index), total);
      if (minimums.empty()) continue;
      const auto whole = static_cast<float>(in.sum(chunk.index, 0));
      const float of_row = in.row.planes == 2
                               ? whole
                               : std::fma(whole, 256.f, static_cast<float>(in.sum(chunk.index, 1)));
      total = std::fma(of_row, minimums[at] * -in.scale(chunk.index), total);
    }
    return total;
  }

 private:
  /// The integer that a code stands for; of `halves` its half, or it, is the number.
  [[nodiscard]] int64_t number(int code) const {
    switch (backend::fixed_codes(packing)) {
      case FixedCodes::halves:
        return kHalves[static_cast<size_t>(code)];
      case FixedCodes::signed_bytes:
        return kBytes[static_cast<size_t>(code)];
      default:
        return code - packing.zero;
    }
  }
  [[nodiscard]] static int64_t level(int code) {
    return std::lrint(kLevels[static_cast<size_t>(code)] * 32767);
  }
  /// The sum of a chunk's codes, which are number(code), times its inputs. With three planes the
  /// sums of inputs without their last bytes, and of these bytes, are added up at the end.
  template <typename F>
  [[nodiscard]] float sum(const Stored& in, int64_t o, const backend::FixedChunk& chunk,
                          const F& number) const {
    int64_t upper = 0, last = 0;
    for (int64_t k = chunk.begin; k < chunk.end; ++k) {
      const int64_t byte = in.row.planes == 2 ? 0 : static_cast<int8_t>(in.integer(k) & 0xff);
      upper +=
          number(code(o, k)) * (in.row.planes == 2 ? in.integer(k) : (in.integer(k) - byte) / 256);
      last += number(code(o, k)) * byte;
    }
    const auto sum = static_cast<float>(upper);
    return in.row.planes == 2 ? sum : std::fma(sum, 256.f, static_cast<float>(last));
  }
  /// Writes a code to its place; the upper bits of 3, 5 and 6 have words of their own.
  void set(int64_t o, int64_t k) {
    const backend::CodeUnit unit(packing.bits);
    const auto put = [&](const backend::CodeUnit::Place& place, int value) {
      const int64_t word = k / unit.columns * unit.words + place.word;
      words_[static_cast<size_t>(word * kStrip + o)] |= static_cast<uint32_t>(value) << place.bit;
    };
    put(unit.lower_place(k % unit.columns), code(o, k) & ((1 << unit.lower()) - 1));
    if (unit.upper > 0) put(unit.upper_place(k % unit.columns), code(o, k) >> unit.lower());
  }

  float factor_ = 1;
  std::array<float, 16> table_{};
  std::vector<uint32_t> words_;
};

/// One row to all of them times all of `codes`.
void check_products(const FixedKernels& fixed, const Codes& codes, const FixedRow& row,
                    const std::vector<Stored>& stored) {
  const backend::PackedTile weight = codes.tile();
  const FixedChunks chunks = row.chunks(0);
  std::vector<std::byte> rows;
  for (const Stored& one : stored) rows.insert(rows.end(), one.bytes.begin(), one.bytes.end());
  for (size_t count = 1; count <= stored.size(); ++count) {
    std::vector<float> c(count * kStrip);
    fixed.multiply({.weight = &weight,
                    .planes = row.planes,
                    .chunks = &chunks,
                    .a = rows.data(),
                    .scales = rows.data() + row.scales_at(),
                    .sums = rows.data() + row.sums_at(),
                    .stride = row.bytes(),
                    .rows = static_cast<int>(count),
                    .c = c.data()});
    for (size_t r = 0; r < count; ++r)
      for (int64_t o = 0; o < kStrip; ++o) {
        CAPTURE(fixed.most_bits, row.planes, codes.packing.bits, codes.packing.code, count, r, o);
        REQUIRE(
            c[r * kStrip + static_cast<size_t>(o)] ==
            (row.planes == 1 ? codes.product_of_bytes(stored[r], o) : codes.product(stored[r], o)));
      }
  }
}

struct Kind {
  int64_t bits;
  FixedCodes as;
  int largest;  // code
};
constexpr Kind kKinds[] = {
    {2, FixedCodes::integers, 3},  {3, FixedCodes::integers, 7},  {4, FixedCodes::integers, 15},
    {4, FixedCodes::halves, 7},    {4, FixedCodes::levels, 0},    {4, FixedCodes::signed_bytes, 0},
    {5, FixedCodes::integers, 31}, {6, FixedCodes::integers, 63}, {8, FixedCodes::integers, 255}};

bool suits(const FixedKernels& fixed, const Codes& codes, int planes) {
  return suits_fixed(fixed, codes.packing, Codes::kColumns, planes);
}

TEST_CASE("products of fixed-point rows have the formula's bits, whatever rows are beside them") {
  for (const FixedKernels* fixed : kernels())
    for (const int planes : {2, 3})
      for (const auto& [bits, as, largest] : kKinds) {
        if (!suits(*fixed, Codes(bits, as), planes)) continue;
        const FixedRow row{planes, 1, Codes::kColumns, Codes::kGroup, 32};
        std::vector<Stored> stored;
        for (int r = 0; r < backend::kFixedRows; ++r) {
          std::vector<float> in = random_row(Codes::kColumns);
          for (float& x : in) x *= std::ldexp(1.f, r);
          in[static_cast<size_t>(r)] = -3;
          stored.emplace_back(row, in, bits);
        }
        check_products(*fixed, Codes(bits, as), row, stored);
      }
}

TEST_CASE("products of rows of int8 have the formula's bits, whatever rows are beside them") {
  constexpr int kRows = 21;  // in tiles of 12, 8 and 1
  for (const FixedKernels* fixed : kernels())
    for (const int64_t group : {16, 32})
      for (const auto& [bits, as, largest] : kKinds)
        for (const int code : {-1, largest}) {
          const Codes codes(bits, as, code, group);
          if (as == FixedCodes::levels || !suits(*fixed, codes, 1)) continue;
          const FixedRow row{.planes = 1,
                             .slices = 1,
                             .columns = Codes::kColumns,
                             .group = group,
                             .lead = 0,
                             .rounded = 32,
                             .zero = backend::fixed_zero(codes.packing)};
          std::vector<Stored> stored;
          for (int r = 0; r < kRows; ++r) {
            std::vector<float> in = random_row(Codes::kColumns);
            for (float& x : in) x *= std::ldexp(1.f, r);
            if (r % 2 == 1) std::fill(in.begin(), in.end(), r % 4 == 1 ? 5.f : -5.f);  // 127
            stored.emplace_back(row, in, bits);
          }
          check_products(*fixed, codes, row, stored);
        }
}

TEST_CASE("the largest codes and inputs do not overflow") {
  for (const FixedKernels* fixed : kernels())
    for (const int planes : {2, 3})
      for (const auto& [bits, as, largest] : kKinds) {
        if (!suits(*fixed, Codes(bits, as), planes)) continue;
        // No groups, so that chunks are whole; all bytes are -127, or 127.
        const FixedRow row{planes, 1, Codes::kColumns, 0, 0};
        const float most = planes == 2 ? 32639.f : 8355711.f;
        std::vector<Stored> stored;
        for (const float input : {most, -most})
          stored.emplace_back(row, std::vector(Codes::kColumns, input), bits);
        Codes codes(bits, as, largest);
        codes.packing.group = 0;
        check_products(*fixed, codes, row, stored);
      }
}

TEST_CASE("a chunk with an input that is no number makes none of its row's sums") {
  const auto planes = GENERATE(1, 2);
  const int64_t group = planes == 1 ? 32 : Codes::kGroup;
  const Codes codes(4, FixedCodes::integers, -1, planes == 1 ? group : 0);
  const backend::PackedTile weight = codes.tile();
  const FixedRow row{planes, 1, Codes::kColumns, group, planes == 1 ? 0 : 32, 32, 3};
  const FixedChunks chunks = row.chunks(0);
  for (const float wrong :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> in = random_row(Codes::kColumns);
    in[100] = wrong;
    for (const FixedKernels* fixed : kernels()) {
      const Stored stored(row, in, 4);
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
