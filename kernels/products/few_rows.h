// A block's part of the product of few rows with a matrix: four rows of the matrix, all of k.
#pragma once

#include <bit>
#include <cstring>

#include "kernels/products/async_copy.h"
#include "kernels/products/bulk_copy.h"
#include "kernels/products/small_linear.h"
#include "kernels/runtime/dispatch.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {

inline constexpr int kFewWarps = 8;
inline constexpr int kFewThreads = kFewWarps * 32;
/// Columns of the result, which are rows of the matrix, in a block: loads in flight for each
/// thread.
inline constexpr int kFewColumns = 4;

/// Bytes of each row that are prefetched before the wait, after the pieces on their way: with all
/// blocks that run at one time less than half of an L2 cache of 50 MB.
inline constexpr int64_t kAheadBytes = int64_t{8} << 10;

__device__ inline void prefetch_l2([[maybe_unused]] const void* address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

/// Loads data that no other block reads, without keeping it in the caches.
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

/// Elements of a row that a block's threads read side by side: a step.
template <int N>
inline constexpr int64_t kFewStep = int64_t{kFewThreads} * N;

/// Types for which the copy engine fills rings.
template <typename W>
inline constexpr bool kBulkFed = sizeof(W) == 2;

/// Calls f with a way of reading a matrix of W, as a type.
template <typename W, typename F>
void with_feed(Feed feed, F&& f) {
  if constexpr (kBulkFed<W>) {
    if (feed == Feed::bulk) return f(std::integral_constant<Feed, Feed::bulk>{});
  }
  if (feed != Feed::registers) return f(std::integral_constant<Feed, Feed::ring>{});
  f(std::integral_constant<Feed, Feed::registers>{});
}

/// Calls f with each way of reading a matrix of W.
template <typename W, typename F>
void with_each_feed(F&& f) {
  with_feed<W>(Feed::registers, f);
  with_feed<W>(Feed::ring, f);
  if constexpr (kBulkFed<W>) with_feed<W>(Feed::bulk, f);
}

/// Steps of the ring that are in flight.
inline constexpr int kRingSteps = 4;

/// Bytes of the barriers, before a ring that the copy engine fills: one for each warp and step.
inline constexpr size_t kRingBarrierBytes =
    round_up(kFewWarps * kRingSteps * sizeof(CopyBarrier), sizeof(uint4));

/// Shared memory of a ring for rows of k elements, in bytes: 0 where pieces go to registers.
template <int N, Feed feed>
__host__ __device__ constexpr size_t ring_bytes(int64_t k) {
  if (feed == Feed::registers) return 0;
  const int64_t steps = (k + kFewStep<N> - 1) / kFewStep<N>;
  return (feed == Feed::bulk ? kRingBarrierBytes : 0) +
         static_cast<size_t>(steps < kRingSteps ? steps : kRingSteps) * kFewThreads * kFewColumns *
             sizeof(uint4);
}

/// A thread's pieces of four rows, in flight. `Feed` decides how they arrive, and does not change
/// sums.
template <typename W, int N, Feed feed>
class Pieces {
 public:
  static constexpr int kSteps = 1;  // asked for ahead
  __device__ void start(const W* const (&rows)[kFewColumns], int64_t at, int64_t k) {
    if (at < k) load(rows, at);
  }
  /// Takes the pieces at `at`, and starts loading later ones.
  __device__ void take(const W* const (&rows)[kFewColumns], int64_t at, int64_t k,
                       Pack<W, N> (&now)[kFewColumns]) {
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) now[j] = next_[j];
    if (at + kFewStep<N> < k) load(rows, at + kFewStep<N>);
  }

 private:
  __device__ void load(const W* const (&rows)[kFewColumns], int64_t at) {
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) next_[j] = load_once<W, N>(rows[j] + at);
  }
  Pack<W, N> next_[kFewColumns];
};

/// Pieces by a ring in shared memory, of which each thread fills and reads its own places: no
/// thread waits for others.
template <typename W, int N>
class Pieces<W, N, Feed::ring> {
 public:
  static constexpr int kSteps = kRingSteps;
  __device__ void start(const W* const (&rows)[kFewColumns], int64_t at, int64_t k) {
    for (int step = 0; step < kRingSteps; ++step) ask(rows, at + step * kFewStep<N>, k, step);
  }
  __device__ void take(const W* const (&rows)[kFewColumns], int64_t at, int64_t k,
                       Pack<W, N> (&now)[kFewColumns]) {
    copies_.template wait<kRingSteps - 1>();
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) memcpy(&now[j], place(slot_, j), sizeof now[j]);
    ask(rows, at + kRingSteps * kFewStep<N>, k, slot_);
    slot_ = (slot_ + 1) % kRingSteps;
  }

 private:
  static __device__ uint4* place(int slot, int j) {
    return shared_array<uint4>() + (slot * kFewColumns + j) * kFewThreads + threadIdx.x;
  }
  __device__ void ask(const W* const (&rows)[kFewColumns], int64_t at, int64_t k, int slot) {
    if (at < k) {
#pragma unroll
      for (int j = 0; j < kFewColumns; ++j) copies_.copy(place(slot, j), rows[j] + at);
    }
    copies_.close();
  }
  static_assert(sizeof(Pack<W, N>) == sizeof(uint4));
  AsyncCopies copies_;
  int slot_ = 0;
};

/// Pieces by a ring that the copy engine fills: a warp's first thread starts the copy of the
/// elements that its threads read side by side, and they wait for no other warp.
template <typename W, int N>
class Pieces<W, N, Feed::bulk> {
 public:
  static constexpr int kSteps = kRingSteps;
  __device__ void start(const W* const (&rows)[kFewColumns], int64_t at, int64_t k) {
    if (lane() == 0) {
      for (int step = 0; step < kRingSteps; ++step) barrier(step).init();
      CopyBarrier::fence();
    }
    __syncwarp();
    for (int step = 0; step < kRingSteps; ++step)
      ask(rows, of_warp(at) + step * kFewStep<N>, k, step);
  }
  __device__ void take(const W* const (&rows)[kFewColumns], int64_t at, int64_t k,
                       Pack<W, N> (&now)[kFewColumns]) {
    barrier(slot_).wait(turn_);
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) memcpy(&now[j], place(slot_, j), sizeof now[j]);
    const int64_t later = of_warp(at) + kRingSteps * kFewStep<N>;
    if (later < k) {  // the step at hand is whole then, so all of the warp are here
      CopyBarrier::fence();
      __syncwarp();
      ask(rows, later, k, slot_);
    }
    slot_ = (slot_ + 1) % kRingSteps;
    if (slot_ == 0) ++turn_;
  }

 private:
  static __device__ int lane() {
    return static_cast<int>(threadIdx.x % 32);
  }
  static __device__ int64_t of_warp(int64_t at) {
    return at - int64_t{lane()} * N;
  }
  static __device__ CopyBarrier& barrier(int slot) {
    return shared_array<CopyBarrier>()[threadIdx.x / 32 * kRingSteps + slot];
  }
  static __device__ uint4* place(int slot, int j) {
    return shared_array<uint4>(kRingBarrierBytes) + (slot * kFewColumns + j) * kFewThreads +
           threadIdx.x;
  }
  /// Starts the copy of the warp's part of a step from element `first` on, by its first thread.
  __device__ void ask(const W* const (&rows)[kFewColumns], int64_t first, int64_t k, int slot) {
    if (first >= k || lane() != 0) return;
    const auto bytes = static_cast<uint32_t>(min(k - first, int64_t{32 * N}) * sizeof(W));
    barrier(slot).expect(kFewColumns * bytes);
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j)
      barrier(slot).copy(place(slot, j), rows[j] + first, bytes);
  }
  static_assert(sizeof(Pack<W, N>) == sizeof(uint4));
  int slot_ = 0;
  uint32_t turn_ = 0;
};

/// Four rows of a matrix [n, k], `stride` elements apart, of which a thread reads every 256th
/// piece. Rows past the last one repeat it. The block's shared memory begins with ring_bytes<N,
/// feed>(k).
template <typename W, int N, Feed feed = Feed::registers>
class FewColumns {
 public:
  static constexpr int64_t kStep = kFewStep<N>;

  __device__ FewColumns(const W* matrix, int64_t stride, int64_t n, int64_t first, int64_t k)
      : FewColumns([&](int j) { return matrix + min(first + j, n - 1) * stride; }, k) {}

  /// row_of(j) is a pointer to the block's row number j.
  template <typename RowOf>
  __device__ FewColumns(RowOf row_of, int64_t k) : k_(k), at_(int64_t{threadIdx.x} * N) {
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) rows_[j] = row_of(j);
    pieces_.start(rows_, at_, k_);
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

  /// Adds products with rows whose elements are multiplied by gain_at(i) first; after the columns'
  /// sums come the sums of the elements' squares without the gains.
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
  /// Takes the pieces at at_, while the next ones are on their way; false past the end.
  __device__ bool next(Pack<W, N> (&now)[kFewColumns]) {
    if (at_ >= k_) return false;
    pieces_.take(rows_, at_, k_, now);
    return true;
  }
  /// Prefetches what follows these pieces of each row to the L2 cache, a line a thread, while the
  /// block waits for the kernels ahead.
  __device__ void ask_ahead() const {
    constexpr int64_t kLine = 128 / sizeof(W);
    constexpr int64_t kAhead = kAheadBytes / sizeof(W);
    constexpr int64_t kAsked = kStep * Pieces<W, N, feed>::kSteps;
    const int64_t at = kAsked + int64_t{threadIdx.x} * kLine;
    if (at >= min(k_, kAsked + kAhead)) return;
#pragma unroll
    for (int j = 0; j < kFewColumns; ++j) prefetch_l2(rows_[j] + at);
  }
  const W* rows_[kFewColumns];
  Pieces<W, N, feed> pieces_;
  int64_t k_;
  int64_t at_;
};

/// Writes the sums over the warp's lanes, from value kFirst on: value i is row i / C, column i % C.
template <int kFirst, int M, int C>
__device__ void store_warp_sums(const float (&sums)[M][C], float* to) {
  constexpr int kCount = M * C - kFirst < 32 ? M * C - kFirst : 32;
  constexpr int kPadded = static_cast<int>(std::bit_ceil(unsigned{kCount}));
  float values[kPadded] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = sums[(kFirst + i) / C][(kFirst + i) % C];
  const float sum = sum_by_lane<32>(values);
  constexpr int kLanes = 32 / kPadded;  // that hold a value's sum
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane % kLanes == 0 && lane / kLanes < kCount) to[kFirst + lane / kLanes] = sum;
  if constexpr (kFirst + kCount < M * C) store_warp_sums<kFirst + kCount>(sums, to);
}

/// Sum of all threads' sums, in their order: thread i < M * C gets row i / C, column i % C.
/// `shared` holds 8 M C floats.
template <int M, int C>
__device__ float sum_of_threads(const float (&sums)[M][C], float* shared) {
  store_warp_sums<0>(sums, shared + threadIdx.x / 32 * M * C);
  __syncthreads();
  float sum = 0;
  if (threadIdx.x < M * C)
    for (int w = 0; w < kFewWarps; ++w) sum += shared[w * M * C + static_cast<int>(threadIdx.x)];
  return sum;
}

}  // namespace plimsoll::kernels
