// Fixed-point rows as kernels store them, and the products that they make with codes by the
// formula.
#pragma once

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/packed_layout.h"
#include "backend/cpu_fixture.h"

namespace plimsoll::testing {

using backend::FixedChunks;
using backend::FixedCodes;
using backend::FixedKernels;
using backend::FixedRow;
using backend::kFixedUnit;
using backend::kStrip;

/// Kernels of fixed-point rows that this processor has.
inline std::set<const FixedKernels*> fixed_kernels() {
  std::set<const FixedKernels*> found;
  for (const CpuIsa isa : isas()) found.insert(backend::fixed_kernels(isa));
  found.erase(nullptr);
  if (found.empty()) WARN("this processor has no products of fixed-point rows");
  return found;
}

/// A row as all kernels store it, read back.
struct StoredRow {
  const FixedRow& row;
  std::vector<std::byte> bytes;

  StoredRow(const FixedRow& layout, const std::vector<float>& from, int64_t bits)
      : row(layout),
        bytes(static_cast<size_t>(layout.bytes())),
        stride_(backend::fixed_stride(bits)) {
    (*fixed_kernels().begin())->store(from.data(), row, bits, bytes.data());
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

inline std::vector<float> normal_row(int64_t columns) {
  std::mt19937 random(static_cast<uint32_t>(columns));
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> row(static_cast<size_t>(columns));
  for (float& x : row) x = normal(random);
  return row;
}

/// The chunks of all slices: index of a chunk's scale and sums, and its range of inputs.
struct SliceChunk {
  int64_t at, begin, end;
};
inline std::vector<SliceChunk> all_chunks(const FixedRow& row) {
  std::vector<SliceChunk> all;
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

/// Twice what codes of e2m1 stand for.
inline constexpr std::array<int64_t, 16> kTwiceE2m1 = {0, 1,  2,  3,  4,  6,  8,  12,
                                                       0, -1, -2, -3, -4, -6, -8, -12};

/// Integers of a table of ggml (IQ4_NL).
inline constexpr std::array<int64_t, 16> kIq4Numbers = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};

/// Levels like those of bitsandbytes: no multiples of anything.
inline constexpr std::array<float, 16> kSomeLevels = {
    -1,      -0.7f, -0.53f, -0.39f, -0.28f, -0.18f, -0.09f, 0,
    0.0796f, 0.16f, 0.25f,  0.34f,  0.44f,  0.56f,  0.72f,  0.9f};

/// Products with codes in groups of 96, one scale each: integers whose zero point is 3, or numbers.
class FixedWeight {
 public:
  static constexpr int64_t kColumns = 480, kGroup = 96;
  model::Packing packing;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> minimums;  // of codes of 2 and of 5 bits

  /// `all`: the code of all weights; -1: random ones. `group`, where it is not 0: inputs that share
  /// a scale, for rows of int8, as blocks of ggml have them.
  FixedWeight(int64_t bits, FixedCodes as, int all = -1, int64_t group = 0)
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
      table_[i] = as == FixedCodes::levels         ? kSomeLevels[i]
                  : as == FixedCodes::signed_bytes ? static_cast<float>(kIq4Numbers[i])
                                                   : factor_ * static_cast<float>(kTwiceE2m1[i]);
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
  [[nodiscard]] float product_of_bytes(const StoredRow& in, int64_t o) const {
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
  [[nodiscard]] float product(const StoredRow& in, int64_t o) const {
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
        return kTwiceE2m1[static_cast<size_t>(code)];
      case FixedCodes::signed_bytes:
        return kIq4Numbers[static_cast<size_t>(code)];
      default:
        return code - packing.zero;
    }
  }
  [[nodiscard]] static int64_t level(int code) {
    return std::lrint(kSomeLevels[static_cast<size_t>(code)] * 32767);
  }
  /// The sum of a chunk's codes, which are number(code), times its inputs. With three planes the
  /// sums of inputs without their last bytes, and of these bytes, are added up at the end.
  template <typename F>
  [[nodiscard]] float sum(const StoredRow& in, int64_t o, const backend::FixedChunk& chunk,
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
inline void check_products(const FixedKernels& fixed, const FixedWeight& codes, const FixedRow& row,
                           const std::vector<StoredRow>& stored) {
  const backend::PackedTile weight = codes.tile();
  const FixedChunks chunks = row.chunks(0);
  std::vector<std::byte> rows;
  for (const StoredRow& one : stored) rows.insert(rows.end(), one.bytes.begin(), one.bytes.end());
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

struct CodeKind {
  int64_t bits;
  FixedCodes as;
  int largest;  // code
};
inline constexpr CodeKind kCodeKinds[] = {
    {2, FixedCodes::integers, 3},  {3, FixedCodes::integers, 7},  {4, FixedCodes::integers, 15},
    {4, FixedCodes::halves, 7},    {4, FixedCodes::levels, 0},    {4, FixedCodes::signed_bytes, 0},
    {5, FixedCodes::integers, 31}, {6, FixedCodes::integers, 63}, {8, FixedCodes::integers, 255}};

inline bool suits_rows(const FixedKernels& fixed, const FixedWeight& codes, int planes) {
  return suits_fixed(fixed, codes.packing, FixedWeight::kColumns, planes);
}

}  // namespace plimsoll::testing
