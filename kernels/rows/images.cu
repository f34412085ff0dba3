// Kernels on rows for image encoders and their embeddings.
#include "kernels/rows/rows.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 128;

/// A block per entry.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) place_kernel(PlaceRows op) {
  wait_for_previous();
  start_next();
  const int64_t entry = blockIdx.x;
  const T* from = static_cast<const T*>(op.in.data) + op.in_rows[entry] * op.in.stride;
  T* to = static_cast<T*>(op.out.data) + op.out_rows[entry] * op.out.stride;
  for (int64_t i = threadIdx.x * N; i < op.out.columns; i += blockDim.x * N)
    store_pack(to + i, load_pack<T, N>(from + i));
}

/// A block per row; parts are added in their order.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) average_kernel(View out, View in) {
  wait_for_previous();
  start_next();
  const auto parts = static_cast<int>(in.columns / out.columns);
  const float share = 1.f / static_cast<float>(parts);
  const T* from = static_cast<const T*>(in.data) + int64_t{blockIdx.x} * in.stride;
  T* to = static_cast<T*>(out.data) + int64_t{blockIdx.x} * out.stride;
  for (int64_t i = threadIdx.x * N; i < out.columns; i += blockDim.x * N) {
    float sums[N] = {};
    for (int part = 0; part < parts; ++part) {
      const Pack<T, N> piece = load_pack<T, N>(from + part * out.columns + i);
      for (int j = 0; j < N; ++j) sums[j] += piece.at(j);
    }
    Pack<T, N> mean;
    for (int j = 0; j < N; ++j) mean.set(j, sums[j] * share);
    store_pack(to + i, mean);
  }
}

Launch blocks_of(int64_t count, cudaStream_t stream) {
  return {.grid = dim3(static_cast<unsigned>(count)), .block = dim3(kThreads), .stream = stream};
}

}  // namespace

void place_rows(const PlaceRows& op, cudaStream_t stream) {
  if (op.in.dtype != op.out.dtype) throw std::logic_error("place_rows: in and out differ in type");
  with_activation_type(op.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          launch(blocks_of(op.count, stream), "place_rows", place_kernel<T, decltype(n)::value>,
                 op);
        },
        op.out, op.in);
  });
}

void compute(const ops::AverageParts& op, cudaStream_t stream) {
  with_activation_type(op.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          launch(blocks_of(op.out.rows, stream), op.kName, average_kernel<T, decltype(n)::value>,
                 op.out, op.in);
        },
        op.out, op.in);
  });
}

}  // namespace plimsoll::kernels
