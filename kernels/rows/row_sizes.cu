// Rows that are changed by what all of their numbers come to.
#include <algorithm>

#include "kernels/rows/rows.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kMaxThreads = 512;
constexpr size_t kReduceBytes = 32 * sizeof(float);
constexpr float kLeastSquare = 1e-5f;

/// The sum of f(x) over a row, in all threads.
template <typename T, int N, typename F>
__device__ float sum_over(const T* row, int64_t width, float* reduce, F f) {
  float sum = 0;
  for (int64_t i = int64_t{threadIdx.x} * N; i < width; i += int64_t{blockDim.x} * N) {
    const Pack<T, N> x = load_pack<T, N>(row + i);
    for (int j = 0; j < N; ++j) sum += f(x.at(j));
  }
  return block_reduce(sum, 0.f, reduce, Add{});
}

/// x = f(x) over a row, in place.
template <typename T, int N, typename F>
__device__ void change(T* row, int64_t width, F f) {
  for (int64_t i = int64_t{threadIdx.x} * N; i < width; i += int64_t{blockDim.x} * N) {
    Pack<T, N> x = load_pack<T, N>(row + i);
    for (int j = 0; j < N; ++j) x.set(j, f(x.at(j)));
    store_pack(row + i, x);
  }
}

/// A block per row.
template <typename T, int N>
__global__ void __launch_bounds__(kMaxThreads) match_size_kernel(View x, View like) {
  wait_for_previous();
  start_next();
  float* reduce = shared_array<float>();
  const auto square = [](float value) { return value * value; };
  const auto width = static_cast<float>(x.columns);
  T* row = row_at<T>(x, blockIdx.x);
  const T* other = row_at<T>(like, blockIdx.x);
  const float own = sum_over<T, N>(row, x.columns, reduce, square) / width;
  const float wanted = sum_over<T, N>(other, x.columns, reduce, square) / width;
  const float factor = sqrtf(wanted) / sqrtf(fmaxf(own, kLeastSquare));
  change<T, N>(row, x.columns, [=](float value) { return value * factor; });
}

/// A block per row.
template <typename T, int N>
__global__ void __launch_bounds__(kMaxThreads) keep_above_kernel(View x, float deviations) {
  wait_for_previous();
  start_next();
  float* reduce = shared_array<float>();
  const auto width = static_cast<float>(x.columns);
  T* row = row_at<T>(x, blockIdx.x);
  const float mean =
      sum_over<T, N>(row, x.columns, reduce, [](float value) { return value; }) / width;
  const float squares = sum_over<T, N>(
      row, x.columns, reduce, [=](float value) { return (value - mean) * (value - mean); });
  const float bound = mean + deviations * sqrtf(squares / width);
  change<T, N>(row, x.columns, [=](float value) {
    const float above = value - bound;
    return above < 0.f ? 0.f : above;  // NaN stays
  });
}

Launch over_rows(const View& x, int pack, cudaStream_t stream) {
  const int64_t threads = divide_up<int64_t>(x.columns / pack, 32) * 32;
  return {.grid = dim3(static_cast<unsigned>(x.rows)),
          .block = dim3(static_cast<unsigned>(std::clamp<int64_t>(threads, 32, kMaxThreads))),
          .shared_bytes = kReduceBytes,
          .stream = stream};
}

}  // namespace

void compute(const ops::MatchSize& op, cudaStream_t stream) {
  if (op.x.dtype != op.like.dtype) throw std::logic_error("match_size: x and like differ in type");
  with_activation_type(op.x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          launch(over_rows(op.x, kN, stream), op.kName, match_size_kernel<T, kN>, op.x, op.like);
        },
        op.x, op.like);
  });
}

void compute(const ops::KeepAbove& op, cudaStream_t stream) {
  with_activation_type(op.x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          launch(over_rows(op.x, kN, stream), op.kName, keep_above_kernel<T, kN>, op.x,
                 op.deviations);
        },
        op.x);
  });
}

}  // namespace plimsoll::kernels
