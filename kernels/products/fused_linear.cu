// small_linear with what stands before and behind it: kernels of a decode step of few rows.
#include "kernels/products/few_rows.h"
#include "kernels/products/small_linear.h"
#include "kernels/rows/activation.h"

namespace plimsoll::kernels {
namespace {

using backend::kFusedRows;
using backend::ProductEnd;

/// Rows of the weight that a block multiplies: neighbours, or two gates and their ups.
template <ProductEnd End>
__device__ int64_t weight_row(int64_t block, int j, int64_t n) {
  if constexpr (End == ProductEnd::gated) {
    const int64_t half = n / 2;
    return min(2 * block + j % 2, half - 1) + (j / 2) * half;
  }
  return min(kFewColumns * block + j, n - 1);
}

/// Gains of N elements from `at` on, in float.
template <typename T, int N>
__device__ void load_gains(const FusedSmallLinear& op, int64_t at, float (&gains)[N]) {
  if (op.gains == nullptr) {
    for (int i = 0; i < N; ++i) gains[i] = 1;
    return;
  }
  const Pack<T, N> pack = load_pack<T, N>(static_cast<const T*>(op.gains) + at);
  for (int i = 0; i < N; ++i) gains[i] = pack.at(i) + op.weight_offset;
}

/// The block's totals [M, C], behind the norm and with the bias: product [M, 4].
template <int M, int C>
__device__ void finish_products(const FusedSmallLinear& op, const float* totals, int64_t weight_at,
                                float* product) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i >= M * kFewColumns) return;
  const int m = i / kFewColumns;
  float sum = totals[m * C + i % kFewColumns];
  if constexpr (C > kFewColumns) {
    const float squares = totals[m * C + kFewColumns] / static_cast<float>(op.in.columns);
    sum *= 1.f / sqrtf(squares + op.epsilon);
  }
  if (op.bias.present()) sum += op.bias.at(weight_at);
  product[i] = sum;
}

/// Stores what becomes of a block's product [M, 4].
template <typename T, ProductEnd End, int M>
__device__ void end_products(const FusedSmallLinear& op, const float* product) {
  constexpr int kOut = End == ProductEnd::gated ? 2 : kFewColumns;
  const auto i = static_cast<int>(threadIdx.x);
  const int m = i / kOut;
  const int64_t column = int64_t{blockIdx.x} * kOut + i % kOut;
  if (m >= M || m >= op.out.rows || column >= op.out.columns) return;
  T& to = row_at<T>(op.out, m)[column];
  const float* of_row = product + m * kFewColumns;
  float result = of_row[i % kOut];
  if constexpr (End == ProductEnd::gated) {
    result = activate(op.activation, result) * of_row[i % kOut + 2];
  }
  if constexpr (End == ProductEnd::added) result += to_float(to);
  to = from_float<T>(result);
}

/// Grid [columns of out / (4, or 2 of gates and ups)]; a block takes all rows.
template <typename T, int M, bool Normed, ProductEnd End, Feed feed>
__global__ void __launch_bounds__(kFewThreads, M == 1 ? 3 : 2)
    fused_linear_kernel(FusedSmallLinear op) {
  constexpr int kN = kWide<T>;
  constexpr int kColumns = kFewColumns + (Normed ? 1 : 0);
  const auto* weight = static_cast<const T*>(op.weight.data);
  FewColumns<T, kN, feed> columns(
      [&](int j) {
        return weight + weight_row<End>(blockIdx.x, j, op.weight.rows) * op.weight.stride;
      },
      op.weight.columns);
  wait_for_previous();
  start_next();
  float sums[M][kColumns] = {};
  const auto row = [&](int m) { return row_at<T>(op.in, min(int64_t{m}, op.in.rows - 1)); };
  if constexpr (Normed) {
    columns.template multiply_normed<T>(
        row, [&](int64_t at, float(&gains)[kN]) { load_gains<T>(op, at, gains); }, sums);
  } else {
    columns.template multiply<T>(row, sums);
  }
  float* shared = shared_array<float>(ring_bytes<kN, feed>(op.weight.columns));
  const float sum = sum_of_threads(sums, shared);
  float* totals = shared + kFewWarps * M * kColumns;
  float* product = totals + M * kColumns;
  if (threadIdx.x < M * kColumns) totals[threadIdx.x] = sum;
  __syncthreads();
  const int j = static_cast<int>(threadIdx.x % kFewColumns);
  finish_products<M, kColumns>(op, totals, weight_row<End>(blockIdx.x, j, op.weight.rows), product);
  __syncthreads();
  end_products<T, End, M>(op, product);
}

template <typename T, int M, bool Normed, ProductEnd End, Feed feed>
void launch_fused(const FusedSmallLinear& op, cudaStream_t stream) {
  constexpr int64_t kOut = End == ProductEnd::gated ? 2 : kFewColumns;
  constexpr int kColumns = kFewColumns + (Normed ? 1 : 0);
  launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(op.out.columns, kOut))),
          .block = dim3(kFewThreads),
          .shared_bytes = ring_bytes<kWide<T>, feed>(op.weight.columns) +
                          M * (kFewWarps * kColumns + kColumns + kFewColumns) * sizeof(float),
          .stream = stream},
         "fused_linear", fused_linear_kernel<T, M, Normed, End, feed>, op);
}

/// Calls f with the kernel's parameters: what a layer of products takes and no more.
template <typename F>
void with_end(const FusedSmallLinear& op, F&& f) {
  using enum ProductEnd;
  if (op.end == gated) return f(std::true_type{}, std::integral_constant<ProductEnd, gated>{});
  if (op.normed) return f(std::true_type{}, std::integral_constant<ProductEnd, stored>{});
  f(std::false_type{}, std::integral_constant<ProductEnd, added>{});
}

template <typename F>
void with_rows(int64_t rows, F&& f) {
  if (rows == 1) return f(std::integral_constant<int, 1>{});
  if (rows == 2) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, static_cast<int>(kFusedRows)>{});
}

}  // namespace

bool covers_fused(const FusedSmallLinear& op) {
  using enum ProductEnd;
  const bool combined = op.normed ? op.end != added : op.end == added;
  const auto fits = [&](const View& view) { return view.dtype == op.in.dtype; };
  if (!combined || op.in.rows > kFusedRows || !fits(op.out) || !fits(op.weight)) return false;
  bool covers = false;
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    covers = is_packed<T, kWide<T>>(op.weight) && is_packed<T, kWide<T>>(op.in) &&
             reinterpret_cast<uintptr_t>(op.gains) % 16 == 0;
  });
  return covers;
}

void load_fused_linear(DType type) {
  with_activation_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const int64_t rows : {1, 2, 4}) {
      with_rows(rows, [&](auto m) {
        with_each_feed<T>([m](auto feed) {
          constexpr int kM = decltype(m)::value;
          constexpr Feed kFeed = decltype(feed)::value;
          preload(fused_linear_kernel<T, kM, true, ProductEnd::stored, kFeed>);
          preload(fused_linear_kernel<T, kM, true, ProductEnd::gated, kFeed>);
          preload(fused_linear_kernel<T, kM, false, ProductEnd::added, kFeed>);
        });
      });
    }
  });
}

void fused_small_linear(const FusedSmallLinear& op, cudaStream_t stream) {
  if (!covers_fused(op)) throw std::logic_error("fused_linear: a product that it does not cover");
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_rows(op.in.rows, [&](auto m) {
      with_end(op, [&](auto normed, auto end) {
        with_feed<T>(op.feed, [&](auto feed) {
          launch_fused<T, decltype(m)::value, decltype(normed)::value, decltype(end)::value,
                       decltype(feed)::value>(op, stream);
        });
      });
    });
  });
}

}  // namespace plimsoll::kernels
