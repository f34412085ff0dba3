#include <algorithm>

#include "kernels/rows/rows.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kMaxNormThreads = 1024;
constexpr size_t kReduceBytes = 32 * sizeof(float);

/// A block per row, which it reads once: it lies in shared memory between the passes.
template <typename T, int N>
__global__ void __launch_bounds__(kMaxNormThreads) norm_kernel(NormOp op) {
  wait_for_previous();
  start_next();
  float* reduce = shared_array<float>();
  T* row = shared_array<T>(kReduceBytes);
  const int64_t t = blockIdx.x;
  T* in = static_cast<T*>(op.in.data) + t * op.in.stride;
  const int64_t width = op.in.columns;
  const int64_t first = int64_t{threadIdx.x} * N;
  const int64_t step = int64_t{blockDim.x} * N;

  float sum = 0;
  float squares = 0;
  for (int64_t i = first; i < width; i += step) {
    Pack<T, N> x = load_pack<T, N>(in + i);
    if (op.delta.data != nullptr) {
      const T* delta = static_cast<const T*>(op.delta.data) + t * op.delta.stride;
      const Pack<T, N> d = load_pack<T, N>(delta + i);
      for (int j = 0; j < N; ++j) x.set(j, x.at(j) + d.at(j));
      store_pack(in + i, x);
    }
    for (int j = 0; j < N; ++j) {
      sum += x.at(j);
      squares += x.at(j) * x.at(j);
    }
    store_pack(row + i, x);
  }
  float mean = 0;
  if (op.spec.kind == model::NormKind::layer) {
    mean = block_reduce(sum, 0.f, reduce, Add{}) / static_cast<float>(width);
    squares = 0;
    for (int64_t i = first; i < width; i += step) {
      const Pack<T, N> x = load_pack<T, N>(row + i);
      for (int j = 0; j < N; ++j) squares += (x.at(j) - mean) * (x.at(j) - mean);
    }
  }
  squares = block_reduce(squares, 0.f, reduce, Add{});
  const float factor = 1.f / sqrtf(squares / static_cast<float>(width) + op.spec.epsilon);
  T* out = static_cast<T*>(op.out.data) + t * op.out.stride;
  const int64_t weights = t % op.turns * width;
  for (int64_t i = first; i < width; i += step) {
    Pack<T, N> x = load_pack<T, N>(row + i);
    for (int j = 0; j < N; ++j) {
      float y = (x.at(j) - mean) * factor;
      if (op.weight.present()) y *= op.weight.at(weights + i + j) + op.spec.weight_offset;
      x.set(j, op.bias.present() ? y + op.bias.at(i + j) : y);
    }
    store_pack(out + i, x);
  }
}

/// The same for all rows, so that rows do not know of each other.
unsigned threads_for(int64_t packs) {
  return static_cast<unsigned>(
      std::clamp<int64_t>(divide_up<int64_t>(packs, 32) * 32, 32, kMaxNormThreads));
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
                  .block = dim3(threads_for(op.in.columns / kN)),
                  .shared_bytes = kReduceBytes + row_bytes,
                  .stream = stream},
                 "norm", norm_kernel<T, kN>, op);
        },
        op.out, op.in, delta);
  });
}

}  // namespace plimsoll::kernels
