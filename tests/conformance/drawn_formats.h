// Matrices stored in formats of quantized checkpoints, and the numbers that they stand for by the
// formats' formulas, in double precision.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "conformance/rounded_weights.h"

namespace plimsoll::testing {

inline constexpr std::array kE2m1 = {0., 0.5, 1., 1.5, 2., 3., 4., 6.};

/// A matrix [rows, columns] of a checkpoint, or several one under the other.
struct Matrix {
  std::string module;  // "model.layers.0.mlp.down_proj", or a stack's tensor
  int64_t count = 1, rows = 0, columns = 0;
  std::vector<float> values{};
  [[nodiscard]] const float* row(int64_t r) const { return values.data() + r * columns; }
};

/// Codes and scales of a matrix in a format, and the numbers that they stand for.
struct Stored {
  std::vector<uint8_t> codes{}, bytes{};  // a byte a code; scales of a byte
  std::vector<float> scales{};
  std::vector<double> numbers{};
};

/// float8 codes; a scale for each `block_rows` x `block_columns` of a matrix.
inline Stored in_fp8(const Matrix& m, int64_t block_rows, int64_t block_columns) {
  Stored s{.codes = std::vector<uint8_t>(m.values.size()),
           .numbers = std::vector<double>(m.values.size())};
  for (int64_t e = 0; e < m.count; ++e)
    for (int64_t top = 0; top < m.rows; top += block_rows)
      for (int64_t left = 0; left < m.columns; left += block_columns) {
        const int64_t bottom = std::min(m.rows, top + block_rows);
        const int64_t right = std::min(m.columns, left + block_columns);
        float most = 0;
        const auto each = [&](const auto& f) {
          for (int64_t r = top; r < bottom; ++r)
            for (int64_t n = left; n < right; ++n)
              f(static_cast<size_t>((e * m.rows + r) * m.columns + n));
        };
        each([&](size_t i) { most = std::max(most, std::fabs(m.values[i])); });
        const float scale = most > 0 ? most / kLargestE4m3 : 1;
        s.scales.push_back(scale);
        each([&](size_t i) {
          s.codes[i] = float_to_e4m3(m.values[i] / scale);
          s.numbers[i] = double{e4m3_to_float(s.codes[i])} * double{scale};
        });
      }
  return s;
}

/// int8 codes, a scale for each row, or one of all.
inline Stored in_int8(const Matrix& m, bool of_tensor = false) {
  Stored s;
  for (int64_t r = 0; r < m.rows; ++r) {
    const int64_t among = of_tensor ? m.rows * m.columns : m.columns;
    const float scale = scale_of(m.row(of_tensor ? 0 : r), among) * kLargestE4m3 / 127;
    if (r == 0 || !of_tensor) s.scales.push_back(scale);
    for (int64_t n = 0; n < m.columns; ++n) {
      const auto code = static_cast<int8_t>(std::lround(m.row(r)[n] / scale));
      s.codes.push_back(static_cast<uint8_t>(code));
      s.numbers.push_back(static_cast<double>(code) * double{scale});
    }
  }
  return s;
}

inline uint8_t nearest_e2m1(double value) {
  size_t best = 0;
  for (size_t i = 1; i < kE2m1.size(); ++i)
    if (std::fabs(kE2m1[i] - std::fabs(value)) < std::fabs(kE2m1[best] - std::fabs(value)))
      best = i;
  return static_cast<uint8_t>(best + (value < 0 ? 8 : 0));
}

/// e2m1 codes in groups of `group`, whose scales are powers of two: `bytes`.
inline Stored in_fp4(const Matrix& m, int64_t group) {
  Stored s;
  for (size_t at = 0; at < m.values.size(); at += static_cast<size_t>(group)) {
    const float most = scale_of(m.values.data() + at, group) * kLargestE4m3;
    const int exponent = std::ilogb(std::max(most, 1e-20f)) - 2;
    s.bytes.push_back(static_cast<uint8_t>(exponent + 127));
    for (size_t i = at; i < at + static_cast<size_t>(group); ++i) {
      const uint8_t code = nearest_e2m1(std::ldexp(double{m.values[i]}, -exponent));
      s.codes.push_back(code);
      s.numbers.push_back(std::ldexp(kE2m1[code & 7], exponent) * (code > 7 ? -1 : 1));
    }
  }
  return s;
}

inline std::vector<uint8_t> in_pairs(const std::vector<uint8_t>& codes) {
  std::vector<uint8_t> pairs;
  for (size_t i = 0; i < codes.size(); i += 2)
    pairs.push_back(static_cast<uint8_t>(codes[i] | codes[i + 1] << 4));
  return pairs;
}

/// Transposes each of `count` matrices [rows, columns].
template <typename T>
std::vector<T> turned(const std::vector<T>& from, int64_t count, int64_t rows, int64_t columns) {
  std::vector<T> to(from.size());
  for (int64_t e = 0; e < count; ++e)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < columns; ++n)
        to[static_cast<size_t>((e * columns + n) * rows + r)] =
            from[static_cast<size_t>((e * rows + r) * columns + n)];
  return to;
}

class Files {
 public:
  SafetensorsWriter stored, plain;

  template <typename T>
  void add(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
           const std::vector<T>& values) {
    stored.add(name, dtype, shape, values.data(), values.size() * sizeof(T));
  }
  void add_one(const std::string& name, float value) {
    stored.add(name, DType::f32, {}, &value, sizeof value);
  }
  void add_plain(const std::string& name, const std::vector<int64_t>& shape,
                 const std::vector<double>& numbers) {
    const std::vector<float> floats(numbers.begin(), numbers.end());
    plain.add(name, DType::f32, shape, floats.data(), 4 * floats.size());
  }
};

/// Stores one matrix; the caller writes the plain numbers.
using Store = Stored (*)(const Matrix&, Files&);

inline Stored quark_tensor(const Matrix& m, Files& to) {
  const Stored s = in_fp8(m, m.rows, m.columns);
  to.add(m.module + ".weight", DType::f8_e4m3, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::f32, {}, s.scales);
  to.add_one(m.module + ".input_scale", 0.02f);
  if (m.module.ends_with("k_proj") || m.module.ends_with("v_proj"))
    to.add_one(m.module + ".output_scale", 0.05f);
  return s;
}
inline Stored quark_channel(const Matrix& m, Files& to) {
  const Stored s = in_fp8(m, 1, m.columns);
  to.add(m.module + ".weight", DType::f8_e4m3, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::f32, {m.rows}, s.scales);
  return s;
}
inline Stored fbgemm(const Matrix& m, Files& to) {
  const Stored s = in_fp8(m, 1, m.columns);
  to.add(m.module + ".weight", DType::f8_e4m3, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::f32, {m.rows, 1}, s.scales);
  return s;
}
inline Stored mxfp4_called(const char* name, const Matrix& m, Files& to) {
  const Stored s = in_fp4(m, 32);
  to.add(m.module + name, DType::u8, {m.rows, m.columns / 2}, in_pairs(s.codes));
  to.add(m.module + ".weight_scale", DType::u8, {m.rows, m.columns / 32}, s.bytes);
  return s;
}
inline Stored quark_mxfp4(const Matrix& m, Files& to) {
  return mxfp4_called(".weight", m, to);
}
inline Stored mxfp4(const Matrix& m, Files& to) {
  return mxfp4_called(".weight_packed", m, to);
}
/// float8 codes in groups of 32, whose scales are powers of two.
inline Stored mxfp8(const Matrix& m, Files& to) {
  Stored s;
  for (size_t at = 0; at < m.values.size(); at += 32) {
    const float most = scale_of(m.values.data() + at, 32) * kLargestE4m3;
    const int exponent = std::ilogb(std::max(most, 1e-20f)) - 8;
    s.bytes.push_back(static_cast<uint8_t>(exponent + 127));
    for (size_t i = at; i < at + 32; ++i) {
      s.codes.push_back(float_to_e4m3(std::ldexp(m.values[i], -exponent)));
      s.numbers.push_back(std::ldexp(double{e4m3_to_float(s.codes.back())}, exponent));
    }
  }
  to.add(m.module + ".weight", DType::f8_e4m3, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::u8, {m.rows, m.columns / 32}, s.bytes);
  return s;
}
inline Stored int8_static(const Matrix& m, Files& to) {
  const Stored s = in_int8(m);
  to.add(m.module + ".weight", DType::i8, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::f32, {m.rows, 1}, s.scales);
  to.add_one(m.module + ".input_scale", 0.03f);
  to.add(m.module + ".input_zero_point", DType::i8, {1}, std::vector<int8_t>{-7});
  return s;
}
inline Stored quark_int8(const Matrix& m, Files& to) {
  const Stored s = in_int8(m);
  to.add(m.module + ".weight", DType::i8, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::f32, {m.rows}, s.scales);
  to.add(m.module + ".weight_zero_point", DType::i8, {m.rows},
         std::vector<int8_t>(static_cast<size_t>(m.rows)));
  to.add_one(m.module + ".input_scale", 0.03f);
  to.add(m.module + ".input_zero_point", DType::i8, {1}, std::vector<int8_t>{-7});
  return s;
}
inline Stored int8_dynamic(const Matrix& m, Files& to) {
  const Stored s = in_int8(m);
  to.add(m.module + ".weight", DType::i8, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::f32, {m.rows, 1}, s.scales);
  return s;
}
inline Stored int8_tensor(const Matrix& m, Files& to) {
  const Stored s = in_int8(m, true);
  to.add(m.module + ".weight", DType::i8, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::f32, {1}, s.scales);
  return s;
}
/// ModelOpt's blocks, whose grid of scales has axes of one between its own.
inline Stored grid_of_four_axes(const Matrix& m, Files& to) {
  const Stored s = in_fp8(m, 128, 128);
  to.add(m.module + ".weight", DType::f8_e4m3, {m.rows, m.columns}, s.codes);
  to.add(m.module + ".weight_scale", DType::f32,
         {(m.rows + 127) / 128, 1, (m.columns + 127) / 128, 1}, s.scales);
  return s;
}
/// ModelOpt's NVFP4; a stack has `weight_scale_2` for each expert, and one scale for the inputs of
/// all.
inline Stored nvfp4_as(const Matrix& m, Files& to, const char* input_scale) {
  Stored s;
  const int64_t all = m.rows * m.columns;
  for (int64_t at = 0; at < m.count * all; at += 16) {
    const float* const values = m.values.data() + at;
    // The largest scale of a matrix is 448.
    if (at % all == 0) s.scales.push_back(scale_of(values, all) / 6);
    const float most = scale_of(values, 16) * kLargestE4m3;
    s.bytes.push_back(std::max<uint8_t>(float_to_e4m3(most / 6 / s.scales.back()), 1));
    const double scale = double{e4m3_to_float(s.bytes.back())} * double{s.scales.back()};
    for (int64_t i = 0; i < 16; ++i) {
      const uint8_t code = nearest_e2m1(double{values[i]} / scale);
      s.codes.push_back(code);
      s.numbers.push_back(kE2m1[code & 7] * scale * (code > 7 ? -1 : 1));
    }
  }
  const bool one = m.count == 1;
  const auto shape = [&](int64_t columns) {
    return one ? std::vector{m.rows, columns} : std::vector{m.count, m.rows, columns};
  };
  const std::string beside = m.module + (one ? "." : "_");
  to.add(m.module + (one ? ".weight" : ""), DType::u8, shape(m.columns / 2), in_pairs(s.codes));
  to.add(beside + "weight_scale", DType::f8_e4m3, shape(m.columns / 16), s.bytes);
  to.add(beside + "weight_scale_2", DType::f32, one ? std::vector<int64_t>{} : std::vector{m.count},
         s.scales);
  to.add_one(beside + input_scale, 0.01f);
  return s;
}
inline Stored nvfp4(const Matrix& m, Files& to) {
  return nvfp4_as(m, to, "input_scale");
}
inline Stored quark_nvfp4(const Matrix& m, Files& to) {
  return nvfp4_as(m, to, "input_scale_2");
}
/// transformers' fp8: experts in one tensor, a grid of scales for each.
inline Stored stacked_blocks(const Matrix& m, Files& to) {
  const Stored s = in_fp8(m, 128, 128);
  const int64_t down = (m.rows + 127) / 128, across = (m.columns + 127) / 128;
  if (m.count == 1) {
    to.add(m.module + ".weight", DType::f8_e4m3, {m.rows, m.columns}, s.codes);
    to.add(m.module + ".weight_scale_inv", DType::f32, {down, across}, s.scales);
  } else {
    to.add(m.module, DType::f8_e4m3, {m.count, m.rows, m.columns}, s.codes);
    to.add(m.module + "_scale_inv", DType::f32, {m.count, down, across}, s.scales);
  }
  return s;
}
/// float8 codes in ModelOpt's form: a scale for each expert, and one scale for the inputs of all.
inline Stored stacked_tensors(const Matrix& m, Files& to) {
  const Stored s = in_fp8(m, m.rows, m.columns);
  const bool one = m.count == 1;
  const auto shape = one ? std::vector{m.rows, m.columns} : std::vector{m.count, m.rows, m.columns};
  to.add(m.module + (one ? ".weight" : ""), DType::f8_e4m3, shape, s.codes);
  const std::string beside = m.module + (one ? "." : "_");
  to.add(beside + "weight_scale", DType::f32, one ? std::vector<int64_t>{} : std::vector{m.count},
         s.scales);
  to.add_one(beside + "input_scale", 0.02f);
  return s;
}
/// Llama 4's experts as fbgemm_fp8 has them: [experts, in, out].
inline Stored turned_channels(const Matrix& m, Files& to) {
  if (m.count == 1) return fbgemm(m, to);
  const Stored s = in_fp8(m, 1, m.columns);
  to.add(m.module, DType::f8_e4m3, {m.count, m.columns, m.rows},
         turned(s.codes, m.count, m.rows, m.columns));
  const bool down = m.module.ends_with("down_proj");
  const auto scales =
      down ? std::vector{m.count, m.rows, int64_t{1}} : std::vector{m.count, int64_t{1}, m.rows};
  to.add(m.module + "_scale", DType::f32, scales, s.scales);
  return s;
}

}  // namespace plimsoll::testing
