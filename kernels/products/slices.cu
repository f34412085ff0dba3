#include "kernels/products/sum_slices.cuh"

#include <algorithm>
#include <stdexcept>

#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;

__global__ void __launch_bounds__(kThreads)
    sum_slices_kernel(const __grid_constant__ SliceSums sums, SumRows to, int64_t packs) {
  wait_for_previous();
  start_next();
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step)
    to(i, sum_of_slices(sums, i));
}

}  // namespace

SumRows sum_rows(const View& out, const SliceSums& sums) {
  if (out.rows != sums.rows || out.columns != sums.columns || sums.stride % kSlicePack != 0)
    throw std::logic_error("sum_slices: out does not match the sums");
  return {.out = out,
          .stride = sums.stride,
          .whole = out.dtype == DType::f32 && is_packed<float, kSlicePack>(out)};
}

void sum_slices(const View& out, const SliceSums& sums, cudaStream_t stream) {
  const int64_t packs = sums.rows * sums.stride / kSlicePack;
  const int64_t blocks = std::min(kMostBlocks, divide_up<int64_t>(packs, kThreads));
  launch({.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads), .stream = stream},
         "sum_slices", sum_slices_kernel, sums, sum_rows(out, sums), packs);
}

}  // namespace plimsoll::kernels
