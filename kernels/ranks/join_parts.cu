#include <algorithm>

#include "base/rounding.h"
#include "kernels/ranks/join_parts.h"
#include "kernels/ranks/tree.h"
#include "kernels/runtime/dispatch.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1024;

/// Joins the parts of `count` packs; a thread's results are read by no other thread.
template <typename T, int N, typename Join>
__global__ void __launch_bounds__(kThreads)
    parts_kernel(Pack<T, N>* out, int64_t count, const __grid_constant__ RankParts parts) {
  using backend::cuda::kMostRanks;
  wait_for_previous();
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    Pack<T, N> all[kMostRanks];
    for (int rank = 0; rank < kMostRanks; ++rank)
      if (rank < parts.ranks) all[rank] = static_cast<const Pack<T, N>*>(parts.part[rank])[i];
    out[i] = join_tree(all, parts.ranks, Join{});
  }
}

template <typename Join>
void join(const View& out, const RankParts& parts, cudaStream_t stream) {
  with_activation_type(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    View any = out;  // has the alignment of the least aligned part
    for (int rank = 0; rank < parts.ranks; ++rank)
      if (reinterpret_cast<uintptr_t>(parts.part[rank]) % 16 != 0)
        any.data = const_cast<void*>(parts.part[rank]);
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          const int64_t count = out.columns / kN;
          launch({.grid = dim3(static_cast<unsigned>(
                      std::min(kMostBlocks, divide_up<int64_t>(count, kThreads)))),
                  .block = dim3(kThreads),
                  .stream = stream},
                 "join_parts", parts_kernel<T, kN, Join>, static_cast<Pack<T, kN>*>(out.data),
                 count, parts);
        },
        out, any);
  });
}

}  // namespace

void join_parts(const View& out, const RankParts& parts, RankJoin kind, cudaStream_t stream) {
  kind == RankJoin::sum ? join<Add>(out, parts, stream) : join<Max>(out, parts, stream);
}

}  // namespace plimsoll::kernels
