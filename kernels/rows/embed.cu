#include "kernels/rows/rows.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 128;

/// A block per row.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) embed_kernel(Embed op) {
  wait_for_previous();
  start_next();
  const int64_t t = blockIdx.x;
  const int32_t given = op.ids[t];
  const int64_t id = given >= 0 ? int64_t{given} + op.id_offset
                                : (op.drawn == nullptr ? -1 : op.drawn[-1 - given]);
  const bool shared = op.all_rows > 0;
  const bool named = id >= 0 && id < (shared ? op.all_rows : op.table.rows);
  const int64_t row = (named ? id : 0) - op.first_row;
  const bool own = row >= 0 && row < op.table.rows;
  const bool known = id >= 0 && own;
  const T* from = row_at<T>(op.table, own ? row : 0);
  T* to = static_cast<T*>(op.out.data) + t * op.out.stride;
  if (given < 0 && op.resolved != nullptr) {
    __syncthreads();  // all have read it
    if (threadIdx.x == 0) op.resolved[t] = static_cast<int32_t>(id < 0 ? 0 : id);
  }
  const bool accumulate = op.store == Store::accumulate;
  for (int64_t i = threadIdx.x * N; i < op.out.columns; i += blockDim.x * N) {
    const Pack<T, N> piece = load_pack<T, N>(from + i);
    Pack<T, N> result;
    if (accumulate) result = load_pack<T, N>(to + i);
    for (int j = 0; j < N; ++j) {
      const float value = known ? piece.at(j) * op.scale : (shared ? -0.f : 0.f);
      result.set(j, accumulate ? result.at(j) + value : value);
    }
    store_pack(to + i, result);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) gather_kernel(View out, View in, const int32_t* rows) {
  wait_for_previous();
  start_next();
  const int64_t row = rows[blockIdx.x];
  const T* from = static_cast<const T*>(in.data) + (row < 0 ? 0 : row) * in.stride;
  T* to = static_cast<T*>(out.data) + int64_t{blockIdx.x} * out.stride;
  Pack<T, N> zero;
  for (int j = 0; j < N; ++j) zero.set(j, 0.f);
  for (int64_t i = threadIdx.x * N; i < out.columns; i += blockDim.x * N)
    store_pack(to + i, row < 0 ? zero : load_pack<T, N>(from + i));
}

Launch block_per_row(const View& out, cudaStream_t stream) {
  return {.grid = dim3(static_cast<unsigned>(out.rows)), .block = dim3(kThreads), .stream = stream};
}

}  // namespace

void embed(const Embed& op, cudaStream_t stream) {
  if (op.table.dtype != op.out.dtype) throw std::logic_error("embed: table and out differ in type");
  with_activation_type(op.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          launch(block_per_row(op.out, stream), "embed", embed_kernel<T, decltype(n)::value>, op);
        },
        op.out, op.table);
  });
}

void gather_rows(const View& out, const View& in, const int32_t* rows, cudaStream_t stream) {
  if (in.dtype != out.dtype) throw std::logic_error("gather_rows: in and out differ in type");
  with_activation_type(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          launch(block_per_row(out, stream), "gather_rows", gather_kernel<T, decltype(n)::value>,
                 out, in, rows);
        },
        out, in);
  });
}

}  // namespace plimsoll::kernels
