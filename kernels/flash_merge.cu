#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/flash_merge.h"

namespace plimsoll::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kLane = 32;
constexpr int kPairs = 4;  // pairs of columns of a lane: 256 columns

__device__ float2 load_pair(const float* from) {
  return *reinterpret_cast<const float2*>(from);
}

__device__ void store_pair(__nv_bfloat16* to, float2 x) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __float22bfloat162_rn(x);
}

__device__ void store_pair(__half* to, float2 x) {
  *reinterpret_cast<__half2*>(to) = __float22half2_rn(x);
}

/// The largest log-sum-exp of partial rows [first, end), known to all lanes.
__device__ float largest(const float* lse, int first, int end, int heads) {
  float best = -1e30f;
  for (int p = first + threadIdx.x; p < end; p += kLane) {
    best = fmaxf(best, lse[static_cast<int64_t>(p) * heads]);
  }
  for (int mask = kLane / 2; mask > 0; mask /= 2) {
    best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, mask));
  }
  return best;
}

/// Grid [merge rows, heads / (kWarps / per_head)], block [32, kWarps]: `per_head` warps for a head,
/// each with every per_head-th partial row.
template <typename Out>
__global__ void __launch_bounds__(kLane* kWarps) merge_kernel(FlashMerge m, int per_head) {
  const int part = threadIdx.y % per_head;
  const int heads = static_cast<int>(m.heads), head_dim = static_cast<int>(m.head_dim);
  const int head = blockIdx.y * (kWarps / per_head) + threadIdx.y / per_head;
  const int first = m.merge_start[blockIdx.x], end = m.merge_start[blockIdx.x + 1];
  float2 sum[kPairs] = {};
  float total = 0;
  if (head < heads) {
    const float best = largest(m.lse + head, first, end, heads);
#pragma unroll 4
    for (int p = first + part; p < end; p += per_head) {
      const int64_t row = static_cast<int64_t>(p) * heads + head;
      const float weight = exp2f(m.lse[row] - best);
      total += weight;
#pragma unroll
      for (int k = 0; k < kPairs; ++k) {
        const int column = (k * kLane + threadIdx.x) * 2;
        if (column < head_dim) {
          const float2 x = load_pair(m.partial + row * head_dim + column);
          sum[k].x += weight * x.x;
          sum[k].y += weight * x.y;
        }
      }
    }
  }
  __shared__ float2 sums[kWarps][kPairs][kLane];
  __shared__ float totals[kWarps];
  if (per_head > 1) {
    for (int k = 0; k < kPairs; ++k) sums[threadIdx.y][k][threadIdx.x] = sum[k];
    if (threadIdx.x == 0) totals[threadIdx.y] = total;
    __syncthreads();
    if (part == 0) {
      for (int w = 1; w < per_head; ++w) {
        total += totals[threadIdx.y + w];
        for (int k = 0; k < kPairs; ++k) {
          sum[k].x += sums[threadIdx.y + w][k][threadIdx.x].x;
          sum[k].y += sums[threadIdx.y + w][k][threadIdx.x].y;
        }
      }
    }
  }
  if (part != 0 || head >= heads) return;
  const int64_t row = static_cast<int64_t>(m.merge_row[blockIdx.x]) * heads + head;
  Out* out = static_cast<Out*>(m.out) + row * head_dim;
  for (int k = 0; k < kPairs; ++k) {
    const int column = (k * kLane + threadIdx.x) * 2;
    if (column < head_dim) {
      store_pair(out + column, make_float2(sum[k].x / total, sum[k].y / total));
    }
  }
}

}  // namespace

cudaError_t flash_merge(const FlashMerge& merge, MergeWarps warps, cudaStream_t stream) {
  if (merge.rows == 0) return cudaSuccess;
  const int per_head = static_cast<int>(warps);
  const int heads_of_block = kWarps / per_head;
  const dim3 grid(static_cast<uint32_t>(merge.rows),
                  static_cast<uint32_t>((merge.heads + heads_of_block - 1) / heads_of_block));
  const dim3 block(kLane, kWarps);
  if (merge.dtype == DType::bf16) {
    merge_kernel<__nv_bfloat16><<<grid, block, 0, stream>>>(merge, per_head);
  } else {
    merge_kernel<__half><<<grid, block, 0, stream>>>(merge, per_head);
  }
  return cudaGetLastError();
}

}  // namespace plimsoll::kernels
