// Sums and maxima over warps and blocks, always in the same order.
#pragma once

#include "kernels/runtime/numeric.h"

namespace plimsoll::kernels {

struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

/// Reduces over a warp; the result is in all lanes.
template <typename T, typename Op>
__device__ T warp_reduce(T value, Op op) {
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value = op(value, __shfl_xor_sync(kAllLanes, value, lanes));
  return value;
}

/// The sum over kLanes lanes, kStride apart, of each of kCount values: lane l gets the sum of value
/// l * kCount / kLanes. All are powers of two. Pairs are added in warp_reduce's order, so the bits
/// are the same, by fewer shuffles.
template <int kLanes, int kStride = 1, int kCount>
__device__ float sum_by_lane(const float (&values)[kCount]) {
  static_assert(kCount <= kLanes && kLanes * kStride <= 32);
  constexpr int kAway = kLanes / 2;
  if constexpr (kCount == 1) {
    float sum = values[0];
#pragma unroll
    for (int away = kAway; away > 0; away /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, away * kStride);
    return sum;
  } else {
    constexpr int kHalf = kCount / 2;
    const bool upper = (threadIdx.x / kStride & kAway) != 0;
    float kept[kHalf];
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      const float first = values[j], second = values[j + kHalf];
      kept[j] = (upper ? second : first) +
                __shfl_xor_sync(kAllLanes, upper ? first : second, kAway * kStride);
    }
    return sum_by_lane<kAway, kStride>(kept);
  }
}

/// Reduces over a block; the result is in all threads. `shared` holds 32 values; may be used again
/// at once. `rest` is the operation's neutral value.
template <typename T, typename Op>
__device__ T block_reduce(T value, T rest, T* shared, Op op) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned warps = blockDim.x / 32;
  value = warp_reduce(value, op);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? shared[lane] : rest, op);
  __syncthreads();
  return value;
}

/// Sum of the values of all threads before this one; `total`: of all. `shared` holds 33 values.
template <typename T>
__device__ T block_exclusive_sum(T value, T* shared, T& total) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned warps = blockDim.x / 32;
  T sum = value;
  for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
    const T before = __shfl_up_sync(kAllLanes, sum, lanes);
    if (lane >= lanes) sum += before;
  }
  if (lane == 31) shared[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const T own = lane < warps ? shared[lane] : T{};
    T all = own;
    for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
      const T before = __shfl_up_sync(kAllLanes, all, lanes);
      if (lane >= lanes) all += before;
    }
    __syncwarp();
    shared[lane] = all - own;
    if (lane == 31) shared[32] = all;
  }
  __syncthreads();
  const T result = shared[warp] + sum - value;
  total = shared[32];
  __syncthreads();
  return result;
}

}  // namespace plimsoll::kernels
