#include "kernels/attention/merge_attention.h"

#include "kernels/runtime/dispatch.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kLane = 32;
constexpr int kPairs = 4;  // pairs of columns of a lane: 256 columns

/// Sums of a lane over the partial results of a row.
struct Sums {
  float x[kPairs][2] = {};
  float weights = 0;
};

/// Partial rows first, first + step, ... of one head.
__device__ Sums sum_rows(const AttentionMerge& m, int head, int first, int end, int step) {
  const int heads = static_cast<int>(m.heads), head_dim = static_cast<int>(m.head_dim);
  float best = -INFINITY;
  for (int p = m.merge_start[blockIdx.x] + static_cast<int>(threadIdx.x); p < end; p += kLane) {
    best = fmaxf(best, m.lse[int64_t{p} * heads + head]);
  }
  best = warp_reduce(best, Max{});
  Sums sums;
#pragma unroll 4
  for (int p = first; p < end; p += step) {
    const int64_t row = int64_t{p} * heads + head;
    const float weight = exp2f(m.lse[row] - best);
    sums.weights += weight;
    for (int k = 0; k < kPairs; ++k) {
      const int column = (k * kLane + static_cast<int>(threadIdx.x)) * 2;
      if (column < head_dim) {
        const auto pair = load_pack<float, 2>(m.partial + row * head_dim + column);
        for (int i = 0; i < 2; ++i) sums.x[k][i] += weight * pair.at(i);
      }
    }
  }
  return sums;
}

/// Adds the sums of `count` warps, this one and those behind it, in their order.
__device__ void add_warps(Sums& sums, int count) {
  Sums* of_thread = shared_array<Sums>();
  of_thread[threadIdx.y * kLane + threadIdx.x] = sums;
  __syncthreads();
  if (threadIdx.y % static_cast<unsigned>(count) != 0) return;
  for (int w = 1; w < count; ++w) {
    const Sums& other = of_thread[(threadIdx.y + static_cast<unsigned>(w)) * kLane + threadIdx.x];
    sums.weights += other.weights;
    for (int k = 0; k < kPairs; ++k)
      for (int i = 0; i < 2; ++i) sums.x[k][i] += other.x[k][i];
  }
}

/// Grid [merge rows, heads * per_head / kWarps], block [32, kWarps]: `per_head` warps for a head,
/// each with every per_head-th partial row.
template <typename Out>
__global__ void __launch_bounds__(kLane* kWarps) merge_kernel(AttentionMerge m, int per_head) {
  wait_for_previous();
  start_next();
  const int part = static_cast<int>(threadIdx.y) % per_head;
  const int head =
      static_cast<int>(blockIdx.y) * (kWarps / per_head) + static_cast<int>(threadIdx.y) / per_head;
  const bool exists = head < m.heads;  // the last block may have warps without
  Sums sums;
  if (exists) {
    sums = sum_rows(m, head, m.merge_start[blockIdx.x] + part, m.merge_start[blockIdx.x + 1],
                    per_head);
  }
  if (per_head > 1) add_warps(sums, per_head);
  if (part != 0 || !exists) return;
  const int64_t row = int64_t{m.merge_row[blockIdx.x]} * m.heads + head;
  Out* out = static_cast<Out*>(m.out) + row * m.head_dim;
  for (int k = 0; k < kPairs; ++k) {
    const int column = (k * kLane + static_cast<int>(threadIdx.x)) * 2;
    if (column >= m.head_dim) break;
    Pack<Out, 2> pair;
    for (int i = 0; i < 2; ++i) pair.set(i, sums.x[k][i] / sums.weights);
    store_pack(out + column, pair);
  }
}

}  // namespace

void load_merge_attention(DType dtype) {
  with_activation_type(dtype,
                       [](auto type) { preload(merge_kernel<typename decltype(type)::type>); });
}

void merge_attention(const AttentionMerge& merge, MergeWarps warps, cudaStream_t stream) {
  const int per_head = static_cast<int>(warps);
  const int64_t heads_of_block = kWarps / per_head;
  const Launch where{.grid = dim3(static_cast<unsigned>(merge.rows),
                                  static_cast<unsigned>(divide_up(merge.heads, heads_of_block))),
                     .block = dim3(kLane, kWarps),
                     .shared_bytes = per_head > 1 ? kWarps * kLane * sizeof(Sums) : 0,
                     .stream = stream};
  with_activation_type(merge.dtype, [&](auto type) {
    launch(where, "merge_attention", merge_kernel<typename decltype(type)::type>, merge, per_head);
  });
}

}  // namespace plimsoll::kernels
