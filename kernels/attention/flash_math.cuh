// Stands in for FlashInfer's math.cuh (same functions, same instructions), included before it under
// its include guard, for two reasons:
//
//  - its "infinity" is 5e4, which running maxima start from and masked scores are set to, before
//    the softmax scale is applied. Scores of models with large biases of K pass that, and a row
//    whose scores all lie below -5e4 would come out as zeros. Here it is kMaskedScore.
//  - its tanh is tanh.approx.f32, wrong by up to 2^-11: 0.02 in a score under a soft cap of 50.
//    Here it is made of ex2 and rcp, wrong by about 1e-7.
#ifdef FLASHINFER_MATH_CUH_
#error "kernels/attention/flash_math.cuh must come before FlashInfer's headers"
#endif
#define FLASHINFER_MATH_CUH_

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/attention/flash_kernel.h"

namespace flashinfer::math {

constexpr float log2e = 1.44269504088896340736f;
constexpr float loge2 = 0.693147180559945309417f;
constexpr float inf = plimsoll::kernels::kMaskedScore;

#ifndef PLIMSOLL_EMULATION

__forceinline__ __device__ float ptx_exp2(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__forceinline__ __device__ float ptx_log2(float x) {
  float y;
  asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__forceinline__ __device__ float ptx_rcp(float x) {
  float y;
  asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__forceinline__ __device__ float rsqrt(float x) {
  float y;
  asm volatile("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Declared for code that is compiled but not used here: sums and scores are f32.
__forceinline__ __device__ half2 ptx_exp2(half2 x) {
  return h2exp2(x);
}
__forceinline__ __device__ half ptx_exp2(half x) {
  return hexp2(x);
}
__forceinline__ __device__ half2 shfl_xor_sync(half2 x, int lane_mask) {
  return __shfl_xor_sync(0xffffffff, x, lane_mask);
}

#else  // tests/flash runs the kernels on the CPU

inline float ptx_exp2(float x) {
  return std::exp2(x);
}
inline float ptx_log2(float x) {
  return std::log2(x);
}
inline float ptx_rcp(float x) {
  return 1.f / x;
}

#endif

__forceinline__ __device__ float shfl_xor_sync(float x, int lane_mask) {
  return __shfl_xor_sync(0xffffffff, x, lane_mask);
}

/// 1 - 2 / (e^2x + 1); e^2x is infinite or zero where tanh is 1 or -1 in f32.
__forceinline__ __device__ float tanh(float x) {
  return 1.f - 2.f * ptx_rcp(ptx_exp2(x * (2.f * log2e)) + 1.f);
}

}  // namespace flashinfer::math
