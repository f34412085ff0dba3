#include "kernels/products/small_linear.h"

#include <array>

#include "kernels/products/few_rows.h"
#include "kernels/rows/activation.h"
#include "kernels/runtime/code.h"
#include "kernels/runtime/store_as.h"

namespace plimsoll::kernels {
namespace {

/// Grid [columns of out / 4, rows / M].
template <typename T, typename W, int N, int M, Feed feed>
__global__ void __launch_bounds__(kFewThreads) small_linear_kernel(SmallLinear op) {
  const int64_t first_column = int64_t{blockIdx.x} * kFewColumns;
  const int64_t first_row = int64_t{blockIdx.y} * M;
  FewColumns<W, N, feed> columns(static_cast<const W*>(op.weight.data), op.weight.stride,
                                 op.weight.rows, first_column, op.weight.columns);
  wait_for_previous();
  start_next();
  float sums[M][kFewColumns] = {};
  columns.template multiply<T>(
      [&](int m) {
        const int64_t row = min(first_row + m, op.in.rows - 1);
        return static_cast<const T*>(op.in.data) + row * op.in.stride;
      },
      sums);
  float sum = sum_of_threads(sums, shared_array<float>(ring_bytes<N, feed>(op.weight.columns)));
  const auto result = static_cast<int>(threadIdx.x);
  const int64_t row = first_row + result / kFewColumns;
  const int64_t column = first_column + result % kFewColumns;
  if (result >= M * kFewColumns || row >= op.out.rows || column >= op.out.columns) return;
  if (op.bias.present()) sum += op.bias.at(column);
  store_as(op.out, row, column, activate(op.activation, sum));
}

template <typename T, typename W, int N, int M, Feed feed = Feed::registers>
void launch_small(const SmallLinear& op, cudaStream_t stream) {
  launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(op.out.columns, kFewColumns)),
                       static_cast<unsigned>(divide_up<int64_t>(op.in.rows, M))),
          .block = dim3(kFewThreads),
          .shared_bytes =
              ring_bytes<N, feed>(op.weight.columns) + kFewWarps * M * kFewColumns * sizeof(float),
          .stream = stream},
         "small_linear", small_linear_kernel<T, W, N, M, feed>, op);
}

/// Calls f with the rows that a block multiplies.
template <typename F>
void with_rows(int64_t rows, F&& f) {
  if (rows == 1) return f(std::integral_constant<int, 1>{});
  if (rows == 2) return f(std::integral_constant<int, 2>{});
  if (rows <= 4) return f(std::integral_constant<int, 4>{});
  f(std::integral_constant<int, int{kSmallRows}>{});
}

template <typename T, typename W>
void launch_by_rows(const SmallLinear& op, cudaStream_t stream) {
  constexpr int kN = kWide<W>;
  if (!is_packed<W, kN>(op.weight) || !is_packed<T, kN>(op.in))
    return launch_small<T, W, 1, kSmallRows>(op, stream);
  with_rows(op.in.rows, [&](auto rows) {
    constexpr int kM = decltype(rows)::value;
    if constexpr (std::is_same_v<T, W>) {
      with_feed<W>(op.feed, [&](auto feed) {
        launch_small<T, W, kN, kM, decltype(feed)::value>(op, stream);
      });
    } else {
      launch_small<T, W, kN, kM>(op, stream);
    }
  });
}

template <typename T, typename W>
void load_for_types() {
  constexpr int kN = kWide<W>;
  preload(small_linear_kernel<T, W, 1, kSmallRows, Feed::registers>);
  for (const int64_t count : {int64_t{1}, int64_t{2}, int64_t{4}, kSmallRows}) {
    with_rows(count, [](auto rows) {
      constexpr int kM = decltype(rows)::value;
      if constexpr (std::is_same_v<T, W>) {
        with_each_feed<W>(
            [](auto feed) { preload(small_linear_kernel<T, W, kN, kM, decltype(feed)::value>); });
      } else {
        preload(small_linear_kernel<T, W, kN, kM, Feed::registers>);
      }
    });
  }
}

}  // namespace

std::span<const Feed> feeds() {
  static constexpr std::array kAll{Feed::registers, Feed::ring, Feed::bulk};
  const std::span<const Feed> all = kAll;
  return code_capability() >= kBulkCopies ? all : all.first(2);
}

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
