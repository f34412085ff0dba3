// A block's part of the product of few rows with a matrix: four rows of the matrix, all of k.
#pragma once

#include <cstring>

#include "kernels/runtime/dispatch.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {

inline constexpr int kFewWarps = 8;
inline constexpr int kFewThreads = kFewWarps * 32;
/// Columns of the result, rows of the matrix, of a block: loads in flight for each thread.
inline constexpr int kFewColumns = 4;

/// Reads what no other block reads: it shall not stay in the caches.
template <typename W, int N>
__device__ Pack<W, N> load_once(const W* from) {
  if constexpr (sizeof(Pack<W, N>) == sizeof(uint4)) {
    const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(from));
    Pack<W, N> pack;
    memcpy(&pack, &bits, sizeof pack);
    return pack;
  } else {
    return load_pack<W, N>(from);
  }
}

/// Four rows of a matrix [n, k], `stride` elements apart, of which a thread reads every 256th
/// piece. Rows past the last are the last again.
template <typename W, int N>
class FewColumns {
 public:
  static constexpr int64_t kStep = int64_t{kFewThreads} * N;

  __device__ FewColumns(const W* matrix, int64_t stride, int64_t n, int64_t first, int64_t k)
      : k_(k), at_(int64_t{threadIdx.x} * N) {
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) rows_[j] = matrix + min(first + j, n - 1) * stride;
    if (at_ < k_) load(at_);
  }

  /// sums[m][j] += the thread's part of row m times column j; row_at(m) is a pointer to a row [k].
  template <typename T, int M, typename RowAt>
  __device__ void multiply(RowAt row_at, float (&sums)[M][kFewColumns]) {
    for (; at_ < k_; at_ += kStep) {
      Pack<W, N> now[kFewColumns];
#pragma unroll
      for (int j = 0; j < kFewColumns; ++j) now[j] = next_[j];
      if (at_ + kStep < k_) load(at_ + kStep);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        const Pack<T, N> x = load_pack<T, N>(row_at(m) + at_);
#pragma unroll
        for (int i = 0; i < N; ++i)
#pragma unroll
          for (int j = 0; j < kFewColumns; ++j) sums[m][j] += x.at(i) * now[j].at(i);
      }
    }
  }

 private:
  __device__ void load(int64_t at) {
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) next_[j] = load_once<W, N>(rows_[j] + at);
  }
  const W* rows_[kFewColumns];
  Pack<W, N> next_[kFewColumns];
  int64_t k_;
  int64_t at_;
};

/// Sum of all threads' sums, in their order: thread i < M * 4 gets row i / 4, column i % 4.
/// `shared` holds 8 M 4 floats.
template <int M>
__device__ float sum_of_threads(const float (&sums)[M][kFewColumns], float* shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) {
      const float sum = warp_reduce(sums[m][j], Add{});
      if (lane == 0) shared[(warp * M + m) * kFewColumns + j] = sum;
    }
  __syncthreads();
  float sum = 0;
  if (threadIdx.x < M * kFewColumns)
    for (int w = 0; w < kFewWarps; ++w)
      sum += shared[w * M * kFewColumns + static_cast<int>(threadIdx.x)];
  return sum;
}

}  // namespace plimsoll::kernels
