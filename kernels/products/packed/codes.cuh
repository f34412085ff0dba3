// Decodes codes of quantized weights to the numbers that they stand for, in registers: a struct for
// each kind, over the words of a row's 32 codes (backend/cuda/packed_layout.h).
//
//   Zero zero(int)              a zero point as `pair` and `number` take it, made once for a group
//   Pair pair<T>(words, p, z)   codes 2 p and 2 p + 1 less their zero point, for tensor cores
//   float number(words, i, z)   code i less its zero point
//
//   kHasMinimums            a minimum is subtracted from each number times its scale
//   kGroupSteps             steps of a group, or 0: any number
//
// Both are exact, except for numbers of a table that T does not have (NF4's, which bitsandbytes
// rounds to the type that it computes in as well). `p` and `i` are known when compiled.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/products/pairs.h"

namespace plimsoll::kernels {

/// Constants of codes, equal for all outputs.
struct CodeConstants {
  const float* table = nullptr;  // of Code::table
  /// Reader::kCounting passed through the host: (codes & mask) | counting is one instruction where
  /// the compiler does not know both to be constants.
  uint32_t counting = 0;
};

/// Bits of 2^23: a float that counts ones.
inline constexpr uint32_t kCountingBits = 0x4B000000;

template <int kBitsOfCode>
struct IntegerCodes {
  static constexpr int kBits = kBitsOfCode;
  static constexpr bool kHasZeros = kBits != 5 && kBits != 6;  // GGUF files have those alone
  static constexpr bool kHasMinimums = false;
  static constexpr int kGroupSteps = kBits == 5 ? 2 : kBits == 6 ? 1 : 0;  // Q5_0, Q6_K

  /// A type whose numbers from 2^(mantissa bits) on count ones holds the code in their lowest bits;
  /// bf16 counts to 127 so, which bytes are beyond.
  template <typename T>
  static constexpr bool kCountsInPairs = std::is_same_v<T, __half> || kBits < 8;

  template <typename T>
  struct Reader {
    static constexpr uint32_t kCounting = (std::is_same_v<T, __half> ? 0x6400 : 0x4300) * 0x10001u;
    uint32_t counting;

    __device__ explicit Reader(const CodeConstants& constants) : counting(constants.counting) {}
    /// The counting number and the zero point.
    __device__ static uint32_t zero(int point) {
      if constexpr (sizeof(T) == 4 || !kCountsInPairs<T>)
        return __float_as_uint(8388608.f + static_cast<float>(point));
      else
        return twice<T>((std::is_same_v<T, __half> ? 1024.f : 128.f) + static_cast<float>(point));
    }
    __device__ Pair pair(const uint32_t* words, int p, uint32_t zero) const {
      const uint32_t codes = fields(words, p);
      if constexpr (kCountsInPairs<T>)
        return subtract<T>(codes | counting, zero);
      else
        return pair_of<T>(counted(codes & 0xffff, zero), counted(codes >> 16, zero));
    }
    __device__ static float number(const uint32_t* words, int i, uint32_t zero) {
      return counted(fields(words, i / 2) >> i % 2 * 16 & 0xffff, zero);
    }
  };

 private:
  __device__ static float counted(uint32_t code, uint32_t zero) {
    return __uint_as_float(code | kCountingBits) - __uint_as_float(zero);
  }
  /// Codes 2 p and 2 p + 1, in the lowest bits of a half word each.
  __device__ static uint32_t fields(const uint32_t* words, int p) {
    constexpr uint32_t kMask = ((1u << kBits) - 1) * 0x10001u;
    constexpr int kOfWord = 16 / kBits;
    if (16 % kBits == 0 || p < kOfWord * kBits)
      return words[p / kOfWord] >> p % kOfWord * kBits & kMask;
    return apart(words, (p - kOfWord * kBits) * kBits);
  }
  /// Codes whose bits lie in what whole codes leave of the words, from bit `first` of that on.
  __device__ static uint32_t apart(const uint32_t* words, int first) {
    constexpr int kLeft = kBits < 16 && 16 % kBits > 0 ? 16 % kBits : 1;
    uint32_t codes = 0;
#pragma unroll
    for (int bit = 0; bit < kBits; ++bit) {
      const int at = first + bit;
      codes |= words[at / kLeft] >> (16 - kLeft + at % kLeft - bit) & 0x10001u << bit;
    }
    return codes;
  }
};

/// Integers of a GGUF file's blocks that have a minimum beside each scale.
template <int kBitsOfCode>
struct MinimumCodes : IntegerCodes<kBitsOfCode> {
  static constexpr bool kHasZeros = false;
  static constexpr bool kHasMinimums = true;
  static constexpr int kGroupSteps = kBitsOfCode == 2 ? 1 : 2;  // Q2_K; the others
};

/// Decodes float8: as bits of a wider type its exponent is too small by the difference of the
/// biases, which a product with a power of two corrects, for numbers below 2^-6 too.
struct E4m3Codes {
  static constexpr int kBits = 8;
  static constexpr bool kHasZeros = false;
  static constexpr bool kHasMinimums = false;
  static constexpr int kGroupSteps = 0;

  template <typename T>
  struct Reader {
    static constexpr uint32_t kCounting = 0;
    __device__ explicit Reader(const CodeConstants&) {}
    __device__ static uint32_t zero(int) { return 0; }
    __device__ static Pair pair(const uint32_t* words, int p, uint32_t) {
      // Bytes 0 and 2, then 1 and 3, in the upper bytes of the halves.
      const uint32_t top = p % 2 == 0 ? words[p / 2] << 8 : words[p / 2];
      const uint32_t sign = top & 0x80008000u;
      if constexpr (std::is_same_v<T, __half>)
        return multiply<T>(sign | (top >> 1 & 0x3f803f80u), twice<T>(256.f));
      else
        return multiply<T>(sign | (top >> 4 & 0x07f007f0u), twice<T>(0x1p120f));
    }
    __device__ static float number(const uint32_t* words, int i, uint32_t) {
      const uint32_t code = words[i / 4] >> (i % 4 / 2 * 8 + i % 2 * 16);
      return __uint_as_float((code & 0x80) << 24 | (code & 0x7f) << 20) * 0x1p120f;
    }
  };
};

/// Decodes one of 16 numbers. For 16 bits their bytes lie in eight registers, and four codes at a
/// time are the selector of __byte_perm.
struct TableCodes {
  static constexpr int kBits = 4;
  static constexpr bool kHasZeros = false;
  static constexpr bool kHasMinimums = false;
  static constexpr int kGroupSteps = 0;

  template <typename T>
  struct Reader {
    static constexpr uint32_t kCounting = 0;
    uint32_t low[4], high[4];  // bytes of the numbers

    __device__ explicit Reader(const CodeConstants& constants) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* from = constants.table + 4 * i;
        const Pair first = pair_of<T>(from[0], from[1]), second = pair_of<T>(from[2], from[3]);
        low[i] = __byte_perm(first, second, 0x6420);
        high[i] = __byte_perm(first, second, 0x7531);
      }
    }
    __device__ static uint32_t zero(int) {
      return 0;
    }
    /// Codes 4 q to 4 q + 3 of a word, a byte each, of the lower or the upper bytes.
    __device__ static uint32_t look_up(const uint32_t* bytes, uint32_t codes) {
      const uint32_t below = codes & 0x7777;
      const uint32_t which = (codes >> 1 & 0x4444) | 0x3210;
      return __byte_perm(__byte_perm(bytes[0], bytes[1], below),
                         __byte_perm(bytes[2], bytes[3], below), which);
    }
    __device__ Pair pair(const uint32_t* words, int p, uint32_t) const {
      // The compiler keeps what pairs 2 q and 2 q + 1 have in common.
      const uint32_t codes = words[p / 4] >> p % 4 / 2 * 16;
      return __byte_perm(look_up(low, codes), look_up(high, codes), p % 2 == 0 ? 0x5140 : 0x7362);
    }
  };
};
template <>
struct TableCodes::Reader<float> {
  static constexpr uint32_t kCounting = 0;
  const float* table;
  __device__ explicit Reader(const CodeConstants& constants) : table(constants.table) {}
  __device__ static uint32_t zero(int) { return 0; }
  __device__ float number(const uint32_t* words, int i, uint32_t) const {
    return table[words[i / 8] >> i % 8 * 4 & 15];
  }
};

}  // namespace plimsoll::kernels
