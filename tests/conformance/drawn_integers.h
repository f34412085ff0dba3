// Matrices stored as packed integers, and the numbers that they stand for.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "conformance/drawn_formats.h"

namespace plimsoll::testing {

/// Packs integers of some bits into words of 32, lowest first: only whole ones in a word, or all
/// bits used.
inline std::vector<uint32_t> in_words(const std::vector<uint8_t>& codes, int64_t line, int64_t bits,
                                      bool whole) {
  const int64_t each = 32 / bits;
  const int64_t words = whole ? (line + each - 1) / each : (line * bits + 31) / 32;
  const int64_t lines = static_cast<int64_t>(codes.size()) / line;
  std::vector<uint32_t> made(static_cast<size_t>(lines * words));
  for (int64_t i = 0; i < lines * line; ++i) {
    const int64_t n = i % line;
    const int64_t bit = whole ? n / each * 32 + n % each * bits : n * bits;
    for (int64_t b = 0; b < bits; ++b) {
      const auto one = static_cast<uint32_t>(codes[static_cast<size_t>(i)] >> b & 1);
      made[static_cast<size_t>(i / line * words + (bit + b) / 32)] |= one << (bit + b) % 32;
    }
  }
  return made;
}

/// Codes by a scale in bf16 and a zero point for each 32 inputs: numbers = (code - zero) * scale.
struct Grouped {
  std::vector<uint8_t> codes{}, zeros{};  // [rows, columns], [rows, columns / 32]
  std::vector<uint16_t> scales{};         // as zeros
  std::vector<double> numbers{};
};
inline Grouped in_groups(const Matrix& m, int64_t bits, bool symmetric) {
  Grouped g;
  const auto top = static_cast<double>((1 << bits) - 1);
  for (size_t at = 0; at < m.values.size(); at += 32) {
    const auto [least, most] = std::minmax_element(m.values.begin() + static_cast<long>(at),
                                                   m.values.begin() + static_cast<long>(at) + 32);
    const double low = std::min(0.f, *least), high = std::max(0.f, *most);
    const double half = std::max(-low / std::max(1., top / 2), high / std::max(1., (top - 1) / 2));
    auto scale = static_cast<float>(std::max(symmetric ? half : (high - low) / top, 1e-6));
    uint16_t& stored = g.scales.emplace_back();
    convert(&scale, DType::f32, &stored, DType::bf16, 1);
    convert(&stored, DType::bf16, &scale, DType::f32, 1);
    const double zero = symmetric ? (top + 1) / 2 : std::round(-low / double{scale});
    g.zeros.push_back(static_cast<uint8_t>(zero));
    for (size_t i = at; i < at + 32; ++i) {
      const double code =
          std::clamp(std::round(double{m.values[i]} / double{scale}) + zero, 0., top);
      g.codes.push_back(static_cast<uint8_t>(code));
      g.numbers.push_back((code - zero) * double{scale});
    }
  }
  return g;
}

/// compressed-tensors' integers of any width.
template <int64_t kBits, bool kWhole, bool kSymmetric>
Stored packed_bits(const Matrix& m, Files& to) {
  const Grouped g = in_groups(m, kBits, kSymmetric);
  const auto words = in_words(g.codes, m.columns, kBits, kWhole);
  const auto across = static_cast<int64_t>(words.size()) / m.rows;
  to.add(m.module + ".weight_packed", DType::i32, {m.rows, across}, words);
  to.add(m.module + ".weight_scale", DType::bf16, {m.rows, m.columns / 32}, g.scales);
  if (!kSymmetric) {
    const auto zeros = in_words(turned(g.zeros, 1, m.rows, m.columns / 32), m.rows, kBits, kWhole);
    const auto down = static_cast<int64_t>(zeros.size()) / (m.columns / 32);
    to.add(m.module + ".weight_zero_point", DType::i32, {down, m.columns / 32},
           turned(zeros, 1, m.columns / 32, down));
  }
  return {.numbers = g.numbers};
}

/// AMD Quark's int4: eight outputs in a word, in AWQ's order; symmetric ones are signed.
template <bool kSymmetric>
Stored quark_int4(const Matrix& m, Files& to) {
  const Grouped g = in_groups(m, 4, kSymmetric);
  constexpr std::array<size_t, 8> kAwq = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto packed = [&](std::vector<uint8_t> lines) {  // [.., rows]
    if (kSymmetric)
      for (uint8_t& code : lines) code ^= 8;
    std::vector<uint8_t> ordered(lines.size());
    for (size_t i = 0; i < lines.size(); ++i) ordered[i] = lines[i / 8 * 8 + kAwq[i % 8]];
    return in_words(ordered, m.rows, 4, true);
  };
  const int64_t groups = m.columns / 32;
  to.add(m.module + ".weight", DType::i32, {m.columns, m.rows / 8},
         packed(turned(g.codes, 1, m.rows, m.columns)));
  to.add(m.module + ".weight_scale", DType::bf16, {groups, m.rows},
         turned(g.scales, 1, m.rows, groups));
  to.add(m.module + ".weight_zero_point", DType::i32, {groups, m.rows / 8},
         packed(turned(g.zeros, 1, m.rows, groups)));
  return {.numbers = g.numbers};
}

/// compressed-tensors' packed integers of 4 bits, in groups of 32, their scales in f16.
inline Stored packed_4_bits(const Matrix& m, Files& to) {
  Stored s;
  std::vector<uint32_t> words(m.values.size() / 8);
  std::vector<uint16_t> halves;
  for (size_t at = 0; at < m.values.size(); at += 32) {
    float scale = scale_of(m.values.data() + at, 32) * kLargestE4m3 / 7 * 1.01f;
    uint16_t& stored = halves.emplace_back();
    convert(&scale, DType::f32, &stored, DType::f16, 1);
    convert(&stored, DType::f16, &scale, DType::f32, 1);
    for (size_t i = at; i < at + 32; ++i) {
      const auto code = static_cast<uint32_t>(std::lround(m.values[i] / scale) + 8);
      words[i / 8] |= code << i % 8 * 4;
      s.numbers.push_back((static_cast<double>(code) - 8) * double{scale});
    }
  }
  to.add(m.module + ".weight_packed", DType::i32, {m.rows, m.columns / 8}, words);
  to.add(m.module + ".weight_scale", DType::f16, {m.rows, m.columns / 32}, halves);
  return s;
}

}  // namespace plimsoll::testing
