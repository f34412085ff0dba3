// Element types of activations and caches in kernels, and aligned pieces of several elements.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace plimsoll::kernels {

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline float to_float(__half x) {
  return __half2float(x);
}
__device__ inline float to_float(__nv_fp8_e4m3 x) {
  return static_cast<float>(x);
}

/// Rounds to nearest even; e4m3 saturates.
template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_fp8_e4m3 from_float<__nv_fp8_e4m3>(float x) {
  return __nv_fp8_e4m3(x);
}

/// N elements that are loaded and stored as one, aligned to their size.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];

  __device__ float at(int i) const { return to_float(values[i]); }
  __device__ void set(int i, float x) { values[i] = from_float<T>(x); }
};

/// Elements of T in 16 bytes.
template <typename T>
inline constexpr int kWide = static_cast<int>(16 / sizeof(T));

template <typename T, int N>
__device__ Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <typename T, int N>
__device__ void store_pack(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

inline constexpr unsigned kAllLanes = 0xffffffffu;

}  // namespace plimsoll::kernels
