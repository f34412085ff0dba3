#include <algorithm>
#include <stdexcept>

#include "base/rounding.h"
#include "kernels/ranks/ranks.h"
#include "kernels/ranks/tree.h"
#include "kernels/runtime/dispatch.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

using backend::cuda::kMeetingBytes;
using backend::cuda::kMostRanks;
using backend::cuda::kRankPieceBytes;
using backend::cuda::Meetings;

constexpr int kThreads = 512;
/// Up to here each rank reads the whole of all others'; above it a share, and then what they made
/// of theirs. Two ranks read as much either way.
constexpr size_t kWholeBytes = size_t{512} << 10;

__device__ Meetings* meetings_of(const RankAreas& areas, int rank) {
  return reinterpret_cast<Meetings*>(areas.area[rank]);
}

template <typename T>
__device__ T* matrix_of(const RankAreas& areas, int rank, uint32_t call) {
  return reinterpret_cast<T*>(areas.area[rank] + kMeetingBytes + (call & 1) * kRankPieceBytes);
}

// All that a block wrote before is seen by who reads this (the threads of the block have met).
__device__ void tell(uint32_t* at, uint32_t value) {
#ifdef PLIMSOLL_EMULATION
  *at = value;
#else
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
#endif
}

__device__ uint32_t hear(const uint32_t* at) {
#ifdef PLIMSOLL_EMULATION
  emulation::let_others_run();
  return *at;
#else
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
#endif
}

/// The number of the call that begins: the same on all ranks, which make the same calls.
__device__ uint32_t begin(const RankAreas& areas) {
  return *static_cast<volatile uint32_t*>(&meetings_of(areas, areas.rank)->calls) + 1;
}

/// Blocks of this number have come here on all ranks.
__device__ void meet(const RankAreas& areas, int point, uint32_t call) {
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (other < areas.ranks)
    tell(&meetings_of(areas, other)->arrived[point][blockIdx.x][areas.rank], call);
  __syncwarp();
  if (other < areas.ranks) {
    const uint32_t* came = &meetings_of(areas, areas.rank)->arrived[point][blockIdx.x][other];
    // Another rank may be in the next call already.
    for (int turn = 1; static_cast<int32_t>(hear(came) - call) < 0; ++turn)
      if (turn % 256 == 16 && *static_cast<const volatile int*>(areas.given_up) != 0) break;
  }
  __syncthreads();
}

/// The last block of a call ends it.
__device__ void end(const RankAreas& areas, uint32_t call) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  Meetings* own = meetings_of(areas, areas.rank);
  __threadfence();
  if (atomicAdd(&own->ended, 1u) != gridDim.x - 1) return;
  own->ended = 0;
  own->calls = call;
}

/// (0 + 1) + (2 + 3), where + is `join`: place i of all ranks' matrices.
template <typename T, int N, typename Join>
__device__ Pack<T, N> join_all(const RankAreas& areas, uint32_t call, int64_t i, Join join) {
  Pack<T, N> all[kMostRanks];
  for (int rank = 0; rank < kMostRanks; ++rank) {
    if (rank < areas.ranks) all[rank] = matrix_of<Pack<T, N>>(areas, rank, call)[i];
  }
  return join_tree(all, areas.ranks, join);
}

/// `values` of `count` packs are cut into `shares` (1, or one for each rank) of `share` packs. A
/// block has the same places of every share, so what it reads the blocks of its number have
/// written.
template <typename T, int N, typename Join>
__global__ void __launch_bounds__(kThreads)
    join_kernel(Pack<T, N>* values, int64_t count, int64_t share, int shares,
                const __grid_constant__ RankAreas areas) {
  wait_for_previous();
  const uint32_t call = begin(areas);
  Pack<T, N>* mine = matrix_of<Pack<T, N>>(areas, areas.rank, call);
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int s = 0; s < shares; ++s)
    for (int64_t i = first; i < share && s * share + i < count; i += stride)
      mine[s * share + i] = values[s * share + i];
  meet(areas, 0, call);
  const int64_t own = shares == 1 ? 0 : areas.rank * share;
  for (int64_t i = first; i < share && own + i < count; i += stride) {
    const Pack<T, N> sum = join_all<T, N>(areas, call, own + i, Join{});
    values[own + i] = sum;
    if (shares > 1) mine[own + i] = sum;  // nobody else reads its places of this share
  }
  if (shares > 1) {
    meet(areas, 1, call);
    for (int s = 0; s < shares; ++s) {
      if (s == areas.rank) continue;
      const Pack<T, N>* theirs = matrix_of<Pack<T, N>>(areas, s, call);
      for (int64_t i = first; i < share && s * share + i < count; i += stride)
        values[s * share + i] = theirs[s * share + i];
    }
  }
  end(areas, call);
}

/// In units of U: rows of `from_width`, which become those of `to_width`; how far apart they are.
struct Collect {
  int64_t rows, from_width, from_stride, to_width, to_stride;
  int first, alike;
};

/// A block has the same rows of every rank.
template <typename U>
__global__ void __launch_bounds__(kThreads)
    collect_kernel(const U* from, U* to, Collect op, const __grid_constant__ RankAreas areas) {
  wait_for_previous();
  const uint32_t call = begin(areas);
  U* mine = matrix_of<U>(areas, areas.rank, call);
  for (int64_t row = blockIdx.x; row < op.rows; row += gridDim.x)
    for (int64_t i = threadIdx.x; i < op.from_width; i += blockDim.x)
      mine[row * op.from_width + i] = from[row * op.from_stride + i];
  meet(areas, 0, call);
  for (int64_t row = blockIdx.x; to != nullptr && row < op.rows; row += gridDim.x)
    for (int64_t i = threadIdx.x; i < op.to_width; i += blockDim.x) {
      const int rank = op.first + static_cast<int>(i / op.from_width) * op.alike;
      to[row * op.to_stride + i] =
          matrix_of<U>(areas, rank, call)[row * op.from_width + i % op.from_width];
    }
  end(areas, call);
}

/// The width of what is copied at once: all places are multiples of it.
template <typename F>
void with_unit(int64_t bytes, F&& f) {
  if (bytes % 16 == 0) return f(TypeTag<uint4>{});
  if (bytes % 4 == 0) return f(TypeTag<uint32_t>{});
  f(TypeTag<uint16_t>{});
}

unsigned blocks_for(int64_t pieces, const RankAreas& areas) {
  return static_cast<unsigned>(std::clamp<int64_t>(pieces, 1, areas.blocks));
}

void require(const View& view) {
  if (view.rows > 1 && view.stride != view.columns)
    throw std::logic_error("ranks share a matrix with gaps between its rows");
}

/// Made in a tree of pairs by `Join`.
template <typename Join>
void join_ranks(const char* name, const View& values, const RankAreas& areas, cudaStream_t stream) {
  require(values);
  with_activation_type(values.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          using P = Pack<T, kN>;
          constexpr auto kMost = static_cast<int64_t>(kRankPieceBytes / sizeof(P));
          const int64_t all = values.rows * values.columns / kN;
          for (int64_t at = 0; at < all; at += kMost) {
            const int64_t count = std::min(kMost, all - at);
            const bool whole =
                areas.ranks == 2 || static_cast<size_t>(count) * sizeof(P) <= kWholeBytes;
            const int shares = whole ? 1 : areas.ranks;
            const int64_t share = divide_up<int64_t>(count, shares);
            launch({.grid = dim3(blocks_for(divide_up<int64_t>(share, kThreads), areas)),
                    .block = dim3(kThreads),
                    .stream = stream},
                   name, join_kernel<T, kN, Join>, static_cast<P*>(values.data) + at, count, share,
                   shares, areas);
          }
        },
        values);
  });
}

}  // namespace

void sum_ranks(const View& values, const RankAreas& areas, cudaStream_t stream) {
  join_ranks<Add>("sum_ranks", values, areas, stream);
}

void most_ranks(const View& values, const RankAreas& areas, cudaStream_t stream) {
  join_ranks<Max>("most_ranks", values, areas, stream);
}

void collect_columns(const RankColumns& op, const RankAreas& areas, cudaStream_t stream) {
  const auto element = static_cast<int64_t>(dtype_size(op.from.dtype));
  const int64_t width = op.from.columns * element;
  const auto bits_of = [&](const View& view) {  // of all that its places are multiples of
    const auto at = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data) & 15);
    return at | (view.columns * element) | (view.stride * element);
  };
  const auto most = static_cast<int64_t>(kRankPieceBytes) / width;
  with_unit(bits_of(op.from) | bits_of(op.to), [&](auto type) {
    using U = typename decltype(type)::type;
    const auto units = [&](int64_t columns) {
      return columns * element / static_cast<int64_t>(sizeof(U));
    };
    for (int64_t row = 0; row < op.from.rows; row += most) {
      const Collect part{.rows = std::min(most, op.from.rows - row),
                         .from_width = units(op.from.columns),
                         .from_stride = units(op.from.stride),
                         .to_width = units(op.to.columns),
                         .to_stride = units(op.to.stride),
                         .first = op.first,
                         .alike = op.alike};
      U* to = static_cast<U*>(op.to.data);
      launch(
          {.grid = dim3(blocks_for(part.rows, areas)), .block = dim3(kThreads), .stream = stream},
          "collect_columns", collect_kernel<U>,
          static_cast<const U*>(op.from.data) + row * part.from_stride,
          to == nullptr ? to : to + row * part.to_stride, part, areas);
    }
  });
}

}  // namespace plimsoll::kernels
