#include "kernels/rows/norm_row.cuh"

namespace plimsoll::kernels {
namespace {

/// A block per row, which it reads once.
template <typename T, int N>
__global__ void __launch_bounds__(kMaxNormThreads) norm_kernel(NormOp op) {
  wait_for_previous();
  start_next();
  const int64_t t = blockIdx.x;
  norm_row<T, N>(op, t, [&](int64_t i) {
    if (op.delta.data == nullptr) return load_pack<T, N>(row_at<T>(op.in, t) + i);
    return add_to_row<T, N>(op, t, i, load_pack<T, N>(row_at<T>(op.delta, t) + i));
  });
}

}  // namespace

void norm(const NormOp& op, cudaStream_t stream) {
  const View delta = is_empty(op.delta) ? op.in : op.delta;
  if (op.out.dtype != op.in.dtype || delta.dtype != op.in.dtype)
    throw std::logic_error("norm: in, delta and out differ in type");
  const size_t row_bytes = static_cast<size_t>(op.in.columns) * dtype_size(op.in.dtype);
  if (static_cast<int64_t>(row_bytes) > kMaxNormBytes)
    throw std::logic_error("norm: rows of " + std::to_string(row_bytes) + " bytes");
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          launch({.grid = dim3(static_cast<unsigned>(op.in.rows)),
                  .block = dim3(norm_threads(op.in.columns / kN)),
                  .shared_bytes = kNormReduceBytes + row_bytes,
                  .stream = stream},
                 "norm", norm_kernel<T, kN>, op);
        },
        op.out, op.in, delta);
  });
}

}  // namespace plimsoll::kernels
