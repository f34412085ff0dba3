#include "kernels/small_linear.h"

#include <cstring>

#include "kernels/activation.h"
#include "kernels/launch.h"
#include "kernels/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kColumns = 4;  // rows of the matrix that a block has: loads in flight for each thread

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

/// The block's part of the matrix. Columns past the last are those of the last again.
template <typename W, int N>
struct Weights {
  const W* columns[kColumns];
  Pack<W, N> next[kColumns];

  __device__ Weights(const View& weight, int64_t first) {
    for (int j = 0; j < kColumns; ++j) {
      const int64_t n = min(first + j, weight.rows - 1);
      columns[j] = static_cast<const W*>(weight.data) + n * weight.stride;
    }
  }
  __device__ void load(int64_t at) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) next[j] = load_once<W, N>(columns[j] + at);
  }
};

__device__ inline void store_as(const View& out, int64_t row, int64_t column, float value) {
  const int64_t at = row * out.stride + column;
  switch (out.dtype) {
    case DType::bf16:
      static_cast<__nv_bfloat16*>(out.data)[at] = from_float<__nv_bfloat16>(value);
      return;
    case DType::f16:
      static_cast<__half*>(out.data)[at] = from_float<__half>(value);
      return;
    default:
      static_cast<float*>(out.data)[at] = value;
  }
}

/// Grid [columns of out / 4, rows / M]. Each thread takes every 256th piece of k, for all of the
/// block's columns and rows; the sums of the threads are added in their order.
template <typename T, typename W, int N, int M>
__global__ void __launch_bounds__(kThreads) small_linear_kernel(SmallLinear op) {
  const int64_t k = op.in.columns;
  const int64_t first_column = int64_t{blockIdx.x} * kColumns;
  const int64_t first_row = int64_t{blockIdx.y} * M;
  const int64_t step = int64_t{kThreads} * N;
  int64_t at = int64_t{threadIdx.x} * N;
  Weights<W, N> weights(op.weight, first_column);
  if (at < k) weights.load(at);
  wait_for_previous();
  start_next();

  float sums[M][kColumns] = {};
  for (; at < k; at += step) {
    Pack<W, N> now[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) now[j] = weights.next[j];
    if (at + step < k) weights.load(at + step);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const int64_t row = min(first_row + m, op.in.rows - 1);
      const Pack<T, N> x =
          load_pack<T, N>(static_cast<const T*>(op.in.data) + row * op.in.stride + at);
#pragma unroll
      for (int i = 0; i < N; ++i)
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[m][j] += x.at(i) * now[j].at(i);
    }
  }

  float* partial = shared_array<float>();  // [warps][M * columns]
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const float sum = warp_reduce(sums[m][j], Add{});
      if (lane == 0) partial[(warp * M + m) * kColumns + j] = sum;
    }
  __syncthreads();
  const auto result = static_cast<int>(threadIdx.x);
  if (result >= M * kColumns) return;
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += partial[w * M * kColumns + result];
  const int64_t row = first_row + result / kColumns;
  const int64_t column = first_column + result % kColumns;
  if (row >= op.out.rows || column >= op.out.columns) return;
  if (op.bias.present()) sum += op.bias.at(column);
  store_as(op.out, row, column, activate(op.activation, sum));
}

template <typename T, typename W, int N, int M>
void launch_small(const SmallLinear& op, cudaStream_t stream) {
  launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(op.out.columns, kColumns)),
                       static_cast<unsigned>(divide_up<int64_t>(op.in.rows, M))),
          .block = dim3(kThreads),
          .shared_bytes = kWarps * M * kColumns * sizeof(float),
          .stream = stream},
         "small_linear", small_linear_kernel<T, W, N, M>, op);
}

template <typename T, typename W>
void launch_by_rows(const SmallLinear& op, cudaStream_t stream) {
  constexpr int kN = kWide<W>;
  if (!is_packed<W, kN>(op.weight) || !is_packed<T, kN>(op.in))
    return launch_small<T, W, 1, kSmallRows>(op, stream);
  if (op.in.rows == 1)
    launch_small<T, W, kN, 1>(op, stream);
  else if (op.in.rows == 2)
    launch_small<T, W, kN, 2>(op, stream);
  else if (op.in.rows <= 4)
    launch_small<T, W, kN, 4>(op, stream);
  else
    launch_small<T, W, kN, kSmallRows>(op, stream);
}

}  // namespace

void small_linear(const SmallLinear& op, cudaStream_t stream) {
  const auto fits = [&](const View& view) {
    return view.dtype == op.in.dtype || view.dtype == DType::f32;
  };
  if (!fits(op.out) || !fits(op.weight))
    throw std::logic_error("small_linear: types that are not compiled");
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (op.weight.dtype == op.in.dtype)
      launch_by_rows<T, T>(op, stream);
    else
      launch_by_rows<T, float>(op, stream);
  });
}

}  // namespace plimsoll::kernels
