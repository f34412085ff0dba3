#include <stdexcept>

#include "kernels/ranks/barrier.cuh"
#include "kernels/rows/norm_row.cuh"

namespace plimsoll::kernels {
namespace {

/// A block has the same rows of every rank, and reads all of them.
template <typename T, int N>
__global__ void __launch_bounds__(kMaxNormThreads)
    sum_add_norm_kernel(NormOp op, const __grid_constant__ RankAreas areas) {
  wait_for_previous();
  const uint32_t call = begin(areas);
  Pack<T, N>* mine = matrix_of<Pack<T, N>>(areas, areas.rank, call);
  const int64_t packs = op.in.columns / N;
  for (int64_t t = blockIdx.x; t < op.in.rows; t += gridDim.x)
    for (int64_t i = threadIdx.x; i < packs; i += blockDim.x)
      mine[t * packs + i] = load_pack<T, N>(row_at<T>(op.delta, t) + i * N);
  barrier(areas, 0, call);
  for (int64_t t = blockIdx.x; t < op.in.rows; t += gridDim.x)
    norm_row<T, N>(op, t, [&](int64_t i) {
      const Pack<T, N> sum = join_all<T, N>(areas, call, t * packs + i / N, Add{});
      return add_to_row<T, N>(op, t, i, sum);
    });
  end(areas, call);
}

}  // namespace

bool sum_add_norm(const NormOp& op, const RankAreas& areas, cudaStream_t stream) {
  if (op.out.dtype != op.in.dtype || op.delta.dtype != op.in.dtype)
    throw std::logic_error("sum_add_norm: in, delta and out differ in type");
  const size_t row_bytes = static_cast<size_t>(op.in.columns) * dtype_size(op.in.dtype);
  const bool fits = static_cast<size_t>(op.in.rows) * row_bytes <= kWholeBytes;
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          // Smaller steps than the one that is met first may be the ones that fit.
          preload(sum_add_norm_kernel<T, kN>);
          if (!fits) return;
          const auto rows = static_cast<int>(op.in.rows);
          launch({.grid = dim3(static_cast<unsigned>(std::min(rows, areas.blocks))),
                  .block = dim3(norm_threads(op.in.columns / kN)),
                  .shared_bytes = kNormReduceBytes + row_bytes,
                  .stream = stream},
                 "sum_add_norm", sum_add_norm_kernel<T, kN>, op, areas);
        },
        op.out, op.in, op.delta);
  });
  return fits;
}

}  // namespace plimsoll::kernels
