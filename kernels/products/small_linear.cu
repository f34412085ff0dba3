#include "kernels/products/small_linear.h"

#include "kernels/products/few_rows.h"
#include "kernels/rows/activation.h"
#include "kernels/runtime/store_as.h"

namespace plimsoll::kernels {
namespace {

/// Grid [columns of out / 4, rows / M].
template <typename T, typename W, int N, int M>
__global__ void __launch_bounds__(kFewThreads) small_linear_kernel(SmallLinear op) {
  const int64_t first_column = int64_t{blockIdx.x} * kFewColumns;
  const int64_t first_row = int64_t{blockIdx.y} * M;
  FewColumns<W, N> columns(static_cast<const W*>(op.weight.data), op.weight.stride, op.weight.rows,
                           first_column, op.weight.columns);
  wait_for_previous();
  start_next();
  float sums[M][kFewColumns] = {};
  columns.template multiply<T>(
      [&](int m) {
        const int64_t row = min(first_row + m, op.in.rows - 1);
        return static_cast<const T*>(op.in.data) + row * op.in.stride;
      },
      sums);
  float sum = sum_of_threads(sums, shared_array<float>());
  const auto result = static_cast<int>(threadIdx.x);
  const int64_t row = first_row + result / kFewColumns;
  const int64_t column = first_column + result % kFewColumns;
  if (result >= M * kFewColumns || row >= op.out.rows || column >= op.out.columns) return;
  if (op.bias.present()) sum += op.bias.at(column);
  store_as(op.out, row, column, activate(op.activation, sum));
}

template <typename T, typename W, int N, int M>
void launch_small(const SmallLinear& op, cudaStream_t stream) {
  launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(op.out.columns, kFewColumns)),
                       static_cast<unsigned>(divide_up<int64_t>(op.in.rows, M))),
          .block = dim3(kFewThreads),
          .shared_bytes = kFewWarps * M * kFewColumns * sizeof(float),
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

template <typename T, typename W>
void load_for_types() {
  constexpr int kN = kWide<W>;
  preload(small_linear_kernel<T, W, 1, kSmallRows>);
  preload(small_linear_kernel<T, W, kN, 1>);
  preload(small_linear_kernel<T, W, kN, 2>);
  preload(small_linear_kernel<T, W, kN, 4>);
  preload(small_linear_kernel<T, W, kN, kSmallRows>);
}

}  // namespace

void load_small_linear(DType in, DType weight) {
  with_activation_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
    weight == in ? load_for_types<T, T>() : load_for_types<T, float>();
  });
}

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
