// Vectors of floats as wide as the instruction set that the including file is compiled for. All in
// an unnamed namespace: each kernels_ISA.cpp gets its own copy. Sums and products are rounded as
// written; `fma` is one rounding where the hardware has it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define PLIMSOLL_INLINE [[gnu::always_inline]] static inline

namespace plimsoll::backend {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr int kRegisters = 32;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
constexpr int kRegisters = 16;
#else
constexpr int kLanes = 4;
constexpr int kRegisters = 16;
#endif

typedef float Vf __attribute__((vector_size(kLanes * 4)));
typedef int32_t Vi __attribute__((vector_size(kLanes * 4)));
typedef uint16_t Vh __attribute__((vector_size(kLanes * 2)));
typedef uint8_t Vb __attribute__((vector_size(kLanes)));

template <typename V>
PLIMSOLL_INLINE V load_as(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
PLIMSOLL_INLINE Vf load(const float* from) {
  return load_as<Vf>(from);
}
template <typename V>
PLIMSOLL_INLINE void store(void* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}
template <typename T>
PLIMSOLL_INLINE T load_scalar(const void* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

PLIMSOLL_INLINE Vi bits(Vf v) {
  return load_as<Vi>(&v);
}
PLIMSOLL_INLINE Vf from_bits(Vi v) {
  return load_as<Vf>(&v);
}

PLIMSOLL_INLINE Vf splat(float x) {
#if defined(__AVX512F__)
  return _mm512_set1_ps(x);
#elif defined(__AVX2__)
  return _mm256_set1_ps(x);
#else
  return Vf{x, x, x, x};
#endif
}
PLIMSOLL_INLINE Vi splat_int(int32_t x) {
  return x - Vi{};
}

PLIMSOLL_INLINE Vf to_float(Vi v) {
  return __builtin_convertvector(v, Vf);
}

PLIMSOLL_INLINE Vf fma(Vf a, Vf b, Vf c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

/// `when` is all ones or all zeros in each lane.
PLIMSOLL_INLINE Vf select(Vi when, Vf yes, Vf no) {
  return when ? yes : no;
}
PLIMSOLL_INLINE Vf max(Vf a, Vf b) {
  return select(a > b, a, b);
}
PLIMSOLL_INLINE Vf min(Vf a, Vf b) {
  return select(a < b, a, b);
}
PLIMSOLL_INLINE Vf abs(Vf v) {
  return from_bits(bits(v) & 0x7fffffff);
}

/// 0, 1, 2, ...
PLIMSOLL_INLINE Vi iota() {
  Vi v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

/// Sum of the lanes, in a fixed order (halves folded onto each other).
PLIMSOLL_INLINE float sum(Vf v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}
PLIMSOLL_INLINE float largest(Vf v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(v);
#else
  float lanes[kLanes];
  store(lanes, v);
  float best = lanes[0];
  for (int i = 1; i < kLanes; ++i) best = lanes[i] > best ? lanes[i] : best;
  return best;
#endif
}

/// numbers[at] of each lane.
PLIMSOLL_INLINE Vf gather(const float* numbers, Vi at) {
#if defined(__AVX512F__)
  return _mm512_i32gather_ps((__m512i)at, numbers, sizeof(float));
#elif defined(__AVX2__)
  return _mm256_i32gather_ps(numbers, (__m256i)at, sizeof(float));
#else
  return Vf{numbers[at[0]], numbers[at[1]], numbers[at[2]], numbers[at[3]]};
#endif
}

// ---- 16-bit types ----

/// Pairs of bf16, one pair in each lane: the first and the second of each.
PLIMSOLL_INLINE Vf first_of_pair(Vi pairs) {
  return from_bits(pairs << 16);
}
PLIMSOLL_INLINE Vf second_of_pair(Vi pairs) {
  return from_bits(pairs & static_cast<int32_t>(0xffff0000u));
}

PLIMSOLL_INLINE Vf load_bf16(const void* from) {
#if defined(__AVX512F__)
  return from_bits((Vi)_mm512_cvtepu16_epi32((__m256i)load_as<Vh>(from)) << 16);
#elif defined(__AVX2__)
  return from_bits((Vi)_mm256_cvtepu16_epi32((__m128i)load_as<Vh>(from)) << 16);
#else
  return from_bits(__builtin_convertvector(load_as<Vh>(from), Vi) << 16);
#endif
}

PLIMSOLL_INLINE Vf load_f16(const void* from) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps((__m256i)load_as<Vh>(from));
#elif defined(__AVX2__)
  return _mm256_cvtph_ps((__m128i)load_as<Vh>(from));
#else
  const Vi h = __builtin_convertvector(load_as<Vh>(from), Vi);
  const Vf scaled = from_bits((h & 0x7fff) << 13) * splat(0x1p112f);  // exponent bias 15 to 127
  const Vi special = (h & 0x7c00) == 0x7c00;                          // infinity, NaN
  return from_bits(bits(scaled) | (special & 0x7f800000) | ((h & 0x8000) << 16));
#endif
}

/// The nearest f16, ties to even.
PLIMSOLL_INLINE Vh to_f16(Vf v) {
#if defined(__AVX512F__)
  return (Vh)_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__AVX2__)
  return (Vh)_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
#else
  Vh h;
  for (int i = 0; i < kLanes; ++i) h[i] = float_to_f16(v[i]);
  return h;
#endif
}

/// The nearest bf16, ties to even; NaN stays NaN.
PLIMSOLL_INLINE Vh to_bf16(Vf v) {
  const Vi b = bits(v);
  const Vi nan = (b & 0x7fffffff) > 0x7f800000;
  const Vi rounded = nan ? (b | 0x400000) : (b + 0x7fff + ((b >> 16) & 1));
  return __builtin_convertvector((rounded >> 16) & 0xffff, Vh);
}

/// The nearest bf16, ties to even; NaN stays NaN.
PLIMSOLL_INLINE uint32_t bf16_of(float value) {
  const auto b = load_scalar<uint32_t>(&value);
  if ((b & 0x7fffffffu) > 0x7f800000u) return (b >> 16) | 0x40u;
  return (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}

// ---- 8-bit types ----

PLIMSOLL_INLINE Vi load_bytes(const void* from) {
  // GCC 12 converts vectors of bytes one by one.
#if defined(__AVX512F__)
  return (Vi)_mm512_cvtepu8_epi32((__m128i)load_as<Vb>(from));
#elif defined(__AVX2__)
  return (Vi)_mm256_cvtepu8_epi32(_mm_loadu_si64(from));
#else
  return __builtin_convertvector(load_as<Vb>(from), Vi);
#endif
}

/// Numbers of float8 codes (e4m3) that are none of NaN's.
PLIMSOLL_INLINE Vf e4m3_number(Vi code) {
  const Vi size = code & 0x7f;
  // Exponents go from bias 7 to bias 127. Numbers below 2^-6 are made as a sum with 2^-6, which is
  // taken off again.
  const Vi least = splat_int(121 << 23);
  const Vf normal = from_bits((size << 20) + (120 << 23));
  const Vf subnormal = from_bits((size << 20) + least) - from_bits(least);
  return from_bits(bits(select(size < 8, subnormal, normal)) | (code & 0x80) << 24);
}

}  // namespace
}  // namespace plimsoll::backend
