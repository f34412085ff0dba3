#include <algorithm>
#include <stdexcept>

#include "base/rounding.h"
#include "kernels/products/sum_slices.cuh"
#include "kernels/ranks/barrier.cuh"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 512;

/// A rank's matrix, which becomes that of all.
template <typename T, int N>
struct InPlace {
  Pack<T, N>* values;

  __device__ Pack<T, N> take(int64_t i) const { return values[i]; }
  __device__ void store(int64_t i, const Pack<T, N>& pack) const { values[i] = pack; }
};

/// Slices of a rank, from pack `first` on; the sum of all ranks' goes elsewhere.
struct FromSlices {
  SliceSums sums;
  SumRows to;
  int64_t first;

  __device__ Pack<float, kSlicePack> take(int64_t i) const {
    return sum_of_slices(sums, first + i);
  }
  __device__ void store(int64_t i, const Pack<float, kSlicePack>& pack) const {
    to(first + i, pack);
  }
};

/// `values` of `count` packs are cut into `shares` (1, or one for each rank) of `share` packs. A
/// block has the same places of every share, so what it reads the blocks of its number have
/// written.
template <typename T, int N, typename Join, typename Values>
__global__ void __launch_bounds__(kThreads)
    join_kernel(const __grid_constant__ Values values, int64_t count, int64_t share, int shares,
                const __grid_constant__ RankAreas areas) {
  wait_for_previous();
  const uint32_t call = begin(areas);
  Pack<T, N>* mine = matrix_of<Pack<T, N>>(areas, areas.rank, call);
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int s = 0; s < shares; ++s)
    for (int64_t i = first; i < share && s * share + i < count; i += stride)
      mine[s * share + i] = values.take(s * share + i);
  barrier(areas, 0, call);
  const int64_t own = shares == 1 ? 0 : areas.rank * share;
  for (int64_t i = first; i < share && own + i < count; i += stride) {
    const Pack<T, N> sum = join_all<T, N>(areas, call, own + i, Join{});
    values.store(own + i, sum);
    if (shares > 1) mine[own + i] = sum;  // nobody else reads its places of this share
  }
  if (shares > 1) {
    barrier(areas, 1, call);
    for (int s = 0; s < shares; ++s) {
      if (s == areas.rank) continue;
      const Pack<T, N>* theirs = matrix_of<Pack<T, N>>(areas, s, call);
      for (int64_t i = first; i < share && s * share + i < count; i += stride)
        values.store(s * share + i, theirs[s * share + i]);
    }
  }
  end(areas, call);
}

/// Rows of `from_width` units of U that become rows of `to_width`, and the strides of both, in
/// units of U.
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
  barrier(areas, 0, call);
  for (int64_t row = blockIdx.x; to != nullptr && row < op.rows; row += gridDim.x)
    for (int64_t i = threadIdx.x; i < op.to_width; i += blockDim.x) {
      const int rank = op.first + static_cast<int>(i / op.from_width) * op.alike;
      to[row * op.to_stride + i] =
          matrix_of<U>(areas, rank, call)[row * op.from_width + i % op.from_width];
    }
  end(areas, call);
}

/// Calls f with the widest unit of copies of which all places are multiples.
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

/// Made in a tree of pairs by `Join`, of `all` packs; values_at(first) are those from one on.
template <typename T, int N, typename Join, typename ValuesAt>
void join_packs(const char* name, int64_t all, const RankAreas& areas, cudaStream_t stream,
                const ValuesAt& values_at) {
  using P = Pack<T, N>;
  constexpr auto kMost = static_cast<int64_t>(kRankPieceBytes / sizeof(P));
  for (int64_t at = 0; at < all; at += kMost) {
    const int64_t count = std::min(kMost, all - at);
    const bool whole = areas.ranks == 2 || static_cast<size_t>(count) * sizeof(P) <= kWholeBytes;
    const int shares = whole ? 1 : areas.ranks;
    const int64_t share = divide_up<int64_t>(count, shares);
    const auto values = values_at(at);
    launch({.grid = dim3(blocks_for(divide_up<int64_t>(share, kThreads), areas)),
            .block = dim3(kThreads),
            .stream = stream},
           name, join_kernel<T, N, Join, std::remove_const_t<decltype(values)>>, values, count,
           share, shares, areas);
  }
}

template <typename Join>
void join_ranks(const char* name, const View& values, const RankAreas& areas, cudaStream_t stream) {
  require(values);
  with_activation_type(values.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          join_packs<T, kN, Join>(
              name, values.rows * values.columns / kN, areas, stream, [&](int64_t first) {
                return InPlace<T, kN>{static_cast<Pack<T, kN>*>(values.data) + first};
              });
        },
        values);
  });
}

}  // namespace

void sum_ranks(const View& values, const RankAreas& areas, cudaStream_t stream) {
  join_ranks<Add>("sum_ranks", values, areas, stream);
}

void sum_slices(const View& out, const SliceSums& sums, const RankAreas& areas,
                cudaStream_t stream) {
  const SumRows to = sum_rows(out, sums);
  const int64_t packs = sums.rows * sums.stride / kSlicePack;
  join_packs<float, kSlicePack, Add>("sum_slices of ranks", packs, areas, stream,
                                     [&](int64_t first) {
                                       return FromSlices{sums, to, first};
                                     });
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
