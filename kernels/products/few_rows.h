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

/// Of each row, behind the first piece, what is asked for before the wait: with the blocks that
/// find room at one time less than half of an L2 cache of 50 MB.
inline constexpr int64_t kAheadBytes = int64_t{8} << 10;

__device__ inline void prefetch_l2([[maybe_unused]] const void* address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

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
      : FewColumns([&](int j) { return matrix + min(first + j, n - 1) * stride; }, k) {}

  /// row_of(j) is a pointer to the block's row number j.
  template <typename RowOf>
  __device__ FewColumns(RowOf row_of, int64_t k) : k_(k), at_(int64_t{threadIdx.x} * N) {
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) rows_[j] = row_of(j);
    if (at_ < k_) load(at_);
    ask_ahead();
  }

  /// sums[m][j] += the thread's part of row m times column j; row_at(m) is a pointer to a row [k].
  template <typename T, int M, typename RowAt>
  __device__ void multiply(RowAt row_at, float (&sums)[M][kFewColumns]) {
    Pack<W, N> now[kFewColumns];
    for (; next(now); at_ += kStep) {
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

  /// The same of rows whose elements are multiplied by gain_at(i) first; behind the columns' sums
  /// come those of their squares without the gains.
  template <typename T, int M, typename RowAt, typename GainsAt>
  __device__ void multiply_normed(RowAt row_at, GainsAt gains_at,
                                  float (&sums)[M][kFewColumns + 1]) {
    Pack<W, N> now[kFewColumns];
    for (; next(now); at_ += kStep) {
      float gains[N];
      gains_at(at_, gains);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        const Pack<T, N> x = load_pack<T, N>(row_at(m) + at_);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float element = x.at(i);
          sums[m][kFewColumns] += element * element;
          const float y = element * gains[i];
#pragma unroll
          for (int j = 0; j < kFewColumns; ++j) sums[m][j] += y * now[j].at(i);
        }
      }
    }
  }

 private:
  /// The pieces at at_, while the next ones are on their way; false behind the end.
  __device__ bool next(Pack<W, N> (&now)[kFewColumns]) {
    if (at_ >= k_) return false;
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) now[j] = next_[j];
    if (at_ + kStep < k_) load(at_ + kStep);
    return true;
  }
  /// Asks for what follows the first piece of each row, a line a thread, so that it is on its way
  /// to the L2 cache while the block waits for the kernels ahead.
  __device__ void ask_ahead() const {
    constexpr int64_t kLine = 128 / sizeof(W);
    constexpr int64_t kAhead = kAheadBytes / sizeof(W);
    const int64_t at = kStep + int64_t{threadIdx.x} * kLine;
    if (at >= min(k_, kStep + kAhead)) return;
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) prefetch_l2(rows_[j] + at);
  }
  __device__ void load(int64_t at) {
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) next_[j] = load_once<W, N>(rows_[j] + at);
  }
  const W* rows_[kFewColumns];
  Pack<W, N> next_[kFewColumns];
  int64_t k_;
  int64_t at_;
};

/// Sum of all threads' sums, in their order: thread i < M * C gets row i / C, column i % C.
/// `shared` holds 8 M C floats.
template <int M, int C>
__device__ float sum_of_threads(const float (&sums)[M][C], float* shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const float sum = warp_reduce(sums[m][j], Add{});
      if (lane == 0) shared[(warp * M + m) * C + j] = sum;
    }
  __syncthreads();
  float sum = 0;
  if (threadIdx.x < M * C)
    for (int w = 0; w < kFewWarps; ++w) sum += shared[w * M * C + static_cast<int>(threadIdx.x)];
  return sum;
}

}  // namespace plimsoll::kernels
