#include "base/ggml/decode.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/dtype.h"

namespace plimsoll {
namespace {

// Layouts and formulas: ggml-common.h and ggml-quants.c of llama.cpp, `dequantize_row_*`.

using Bytes = const uint8_t*;

constexpr std::array<int8_t, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
/// Numbers of E2M1, doubled.
constexpr std::array<int8_t, 16> kE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float half_at(Bytes at) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return f16_to_float(bits);
}

uint32_t word_at(Bytes at) {
  uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// Element j of 2 * half nibbles: byte j holds element j in its low and element j + half in its
/// high four bits.
int nibble(Bytes from, int j, int half) {
  return j < half ? from[j] & 15 : from[j - half] >> 4;
}

void q4_0(Bytes b, float* y) {
  const float d = half_at(b);
  for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(nibble(b + 2, j, 16) - 8);
}

void q4_1(Bytes b, float* y) {
  const float d = half_at(b), m = half_at(b + 2);
  for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(nibble(b + 4, j, 16)) + m;
}

void q5_0(Bytes b, float* y) {
  const float d = half_at(b);
  const uint32_t high = word_at(b + 2);
  for (int j = 0; j < 32; ++j) {
    const auto bit = static_cast<int>(high >> j & 1);
    y[j] = d * static_cast<float>((nibble(b + 6, j, 16) | bit << 4) - 16);
  }
}

void q5_1(Bytes b, float* y) {
  const float d = half_at(b), m = half_at(b + 2);
  const uint32_t high = word_at(b + 4);
  for (int j = 0; j < 32; ++j) {
    const auto bit = static_cast<int>(high >> j & 1);
    y[j] = d * static_cast<float>(nibble(b + 8, j, 16) | bit << 4) + m;
  }
}

void q8_0(Bytes b, float* y) {
  const float d = half_at(b);
  for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(static_cast<int8_t>(b[2 + j]));
}

/// Two bits of element e of 256 in 64 bytes.
int crumb(Bytes from, int e) {
  return from[e / 128 * 32 + e % 32] >> e % 128 / 32 * 2 & 3;
}

void q2_k(Bytes b, float* y) {
  const Bytes scales = b, qs = b + 16;
  const float d = half_at(b + 80), least = half_at(b + 82);
  for (int e = 0; e < 256; ++e) {
    const uint8_t s = scales[e / 16];
    const float scale = d * static_cast<float>(s & 15),
                minimum = least * static_cast<float>(s >> 4);
    y[e] = scale * static_cast<float>(crumb(qs, e)) - minimum;
  }
}

void q3_k(Bytes b, float* y) {
  const Bytes mask = b, qs = b + 32, s = b + 96;
  const float d = half_at(b + 108);
  std::array<float, 16> scales{};
  for (int k = 0; k < 16; ++k) {
    const int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
    const int high = s[8 + k % 4] >> 2 * (k / 4) & 3;
    scales[static_cast<size_t>(k)] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (int e = 0; e < 256; ++e) {
    const int less = (mask[e % 32] >> e / 32 & 1) == 0 ? 4 : 0;
    y[e] = scales[static_cast<size_t>(e / 16)] * static_cast<float>(crumb(qs, e) - less);
  }
}

/// Scale and minimum of group i of 8, six bits each, in the 12 bytes of Q4_K and Q5_K.
struct ScaleAndMinimum {
  float scale, minimum;

  ScaleAndMinimum(Bytes s, int i, float d, float least) {
    const int scale_bits = i < 4 ? s[i] & 63 : (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
    const int minimum_bits = i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | s[i] >> 6 << 4;
    scale = d * static_cast<float>(scale_bits);
    minimum = least * static_cast<float>(minimum_bits);
  }
};

void q4_k(Bytes b, float* y) {
  const float d = half_at(b), least = half_at(b + 2);
  for (int i = 0; i < 8; ++i) {
    const ScaleAndMinimum group(b + 4, i, d, least);
    const Bytes q = b + 16 + i / 2 * 32;
    for (int j = 0; j < 32; ++j)
      y[i * 32 + j] = group.scale * static_cast<float>(q[j] >> i % 2 * 4 & 15) - group.minimum;
  }
}

void q5_k(Bytes b, float* y) {
  const float d = half_at(b), least = half_at(b + 2);
  const Bytes high = b + 16;
  for (int i = 0; i < 8; ++i) {
    const ScaleAndMinimum group(b + 4, i, d, least);
    const Bytes q = b + 48 + i / 2 * 32;
    for (int j = 0; j < 32; ++j) {
      const int code = (q[j] >> i % 2 * 4 & 15) | (high[j] >> i & 1) << 4;
      y[i * 32 + j] = group.scale * static_cast<float>(code) - group.minimum;
    }
  }
}

void q6_k(Bytes b, float* y) {
  const float d = half_at(b + 208);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, quarter = e % 128 / 32, l = e % 32;
    const uint8_t low = b[64 * half + quarter % 2 * 32 + l];
    const int high = b[128 + 32 * half + l] >> 2 * quarter & 3;
    const int code = (quarter < 2 ? low & 15 : low >> 4) | high << 4;
    const auto scale = static_cast<int8_t>(b[192 + e / 16]);
    y[e] = d * static_cast<float>(scale) * static_cast<float>(code - 32);
  }
}

void iq4_nl(Bytes b, float* y) {
  const float d = half_at(b);
  for (int j = 0; j < 32; ++j)
    y[j] = d * static_cast<float>(kIq4[static_cast<size_t>(nibble(b + 2, j, 16))]);
}

void iq4_xs(Bytes b, float* y) {
  const float d = half_at(b);
  const int high = b[2] | b[3] << 8;
  for (int i = 0; i < 8; ++i) {
    const int low = b[4 + i / 2] >> i % 2 * 4 & 15;
    const float scale = d * static_cast<float>((low | (high >> 2 * i & 3) << 4) - 32);
    for (int j = 0; j < 32; ++j)
      y[i * 32 + j] =
          scale * static_cast<float>(kIq4[static_cast<size_t>(nibble(b + 8 + i * 16, j, 16))]);
  }
}

void mxfp4(Bytes b, float* y) {
  const float scale = std::ldexp(1.f, b[0] - 128);  // e 0 and 1 are subnormal floats
  for (int j = 0; j < 32; ++j)
    y[j] = scale * static_cast<float>(kE2m1[static_cast<size_t>(nibble(b + 1, j, 16))]);
}

/// An unsigned E4M3 (bias 7), halved; 0x7f, a NaN elsewhere, is 0.
float half_e4m3(uint8_t bits) {
  if (bits == 0 || bits == 0x7f) return 0;
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float number = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                     : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return number / 2;
}

void nvfp4(Bytes b, float* y) {
  for (int i = 0; i < 4; ++i) {
    const float scale = half_e4m3(b[i]);
    for (int j = 0; j < 16; ++j)
      y[i * 16 + j] =
          scale * static_cast<float>(kE2m1[static_cast<size_t>(nibble(b + 4 + i * 8, j, 8))]);
  }
}

using DecodeBlock = void (*)(Bytes from, float* to);

DecodeBlock decoder_of(GgmlType type) {
  switch (type) {
    case GgmlType::q4_0:
      return q4_0;
    case GgmlType::q4_1:
      return q4_1;
    case GgmlType::q5_0:
      return q5_0;
    case GgmlType::q5_1:
      return q5_1;
    case GgmlType::q8_0:
      return q8_0;
    case GgmlType::q2_k:
      return q2_k;
    case GgmlType::q3_k:
      return q3_k;
    case GgmlType::q4_k:
      return q4_k;
    case GgmlType::q5_k:
      return q5_k;
    case GgmlType::q6_k:
      return q6_k;
    case GgmlType::iq4_nl:
      return iq4_nl;
    case GgmlType::iq4_xs:
      return iq4_xs;
    case GgmlType::mxfp4:
      return mxfp4;
    case GgmlType::nvfp4:
      return nvfp4;
    default:
      return nullptr;
  }
}

}  // namespace

void decode_ggml(GgmlType type, const std::byte* from, int64_t count, float* to) {
  switch (type) {
    case GgmlType::f32:
      return convert(from, DType::f32, to, DType::f32, static_cast<size_t>(count));
    case GgmlType::f16:
      return convert(from, DType::f16, to, DType::f32, static_cast<size_t>(count));
    case GgmlType::bf16:
      return convert(from, DType::bf16, to, DType::f32, static_cast<size_t>(count));
    case GgmlType::f64:
      return convert(from, DType::f64, to, DType::f32, static_cast<size_t>(count));
    default:
      break;
  }
  const DecodeBlock decode = decoder_of(type);
  const GgmlTypeInfo* const info = find_ggml_type(static_cast<uint32_t>(type));
  if (decode == nullptr || info == nullptr) throw std::logic_error("a type that run does not have");
  const auto* block = reinterpret_cast<Bytes>(from);
  for (int64_t done = 0; done < count; done += info->values, block += info->bytes)
    decode(block, to + done);
}

}  // namespace plimsoll
