// Ops on each element by itself.
#include "kernels/rows/activation.h"
#include "kernels/rows/rows.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 256;

/// Row and first column of a thread: blocks of a row lie side by side in the grid.
struct Place {
  int64_t row;
  int64_t column;
};
template <int N>
__device__ Place place_of(int64_t columns) {
  const auto blocks = static_cast<unsigned>(divide_up<int64_t>(columns, kThreads * N));
  return {blockIdx.x / blocks, int64_t{blockIdx.x % blocks * kThreads + threadIdx.x} * N};
}

template <int N>
Launch over_elements(const View& out, cudaStream_t stream) {
  const int64_t blocks = out.rows * divide_up<int64_t>(out.columns, kThreads * N);
  return {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads), .stream = stream};
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) add_kernel(View residual, View delta) {
  wait_for_previous();
  start_next();
  const Place at = place_of<N>(residual.columns);
  if (at.column >= residual.columns) return;
  T* to = row_at<T>(residual, at.row) + at.column;
  Pack<T, N> x = load_pack<T, N>(to);
  const Pack<T, N> d = load_pack<T, N>(row_at<T>(delta, at.row) + at.column);
  for (int j = 0; j < N; ++j) x.set(j, x.at(j) + d.at(j));
  store_pack(to, x);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    gated_kernel(View out, View in, model::Activation activation) {
  wait_for_previous();
  start_next();
  const Place at = place_of<N>(out.columns);
  if (at.column >= out.columns) return;
  const T* from = row_at<T>(in, at.row) + at.column;
  const Pack<T, N> gate = load_pack<T, N>(from);
  const Pack<T, N> up = load_pack<T, N>(from + out.columns);
  Pack<T, N> result;
  for (int j = 0; j < N; ++j) result.set(j, activate(activation, gate.at(j)) * up.at(j));
  store_pack(row_at<T>(out, at.row) + at.column, result);
}

/// x = change(x, its row, its column) for each element, in place.
template <typename T, int N, typename Change>
__device__ void change_each(const View& x, Change change) {
  const Place at = place_of<N>(x.columns);
  if (at.column >= x.columns) return;
  T* to = row_at<T>(x, at.row) + at.column;
  Pack<T, N> values = load_pack<T, N>(to);
  for (int j = 0; j < N; ++j) values.set(j, change(values.at(j), at.row, at.column + j));
  store_pack(to, values);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    bias_kernel(View x, Vector bias, model::Activation activation) {
  wait_for_previous();
  start_next();
  change_each<T, N>(x, [&](float value, int64_t, int64_t column) {
    return activate(activation, value + (bias.present() ? bias.at(column) : 0.f));
  });
}

/// A block per row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    heads_kernel(View out, View in, backend::HeadColumns columns) {
  wait_for_previous();
  start_next();
  const int64_t count = columns.heads * columns.width;
  T* to = row_at<T>(out, blockIdx.x) + columns.to;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int64_t head = i / columns.width;
    const int64_t column = i % columns.width;
    to[head * columns.to_stride + column] =
        in.rows == 0
            ? from_float<T>(0.f)
            : row_at<T>(in, blockIdx.x)[columns.from + head * columns.from_stride + column];
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) soft_cap_kernel(View x, float cap) {
  wait_for_previous();
  start_next();
  change_each<T, N>(x, [&](float value, int64_t, int64_t) { return cap * tanhf(value / cap); });
}

/// `limits` are infinite where there are none; NaN stays.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) limits_kernel(View x, model::GateLimits limits) {
  wait_for_previous();
  start_next();
  change_each<T, N>(x, [&](float value, int64_t, int64_t column) {
    const bool is_gate = column < x.columns / 2;
    const float most = is_gate ? limits.gate : limits.up;
    return value > most ? most : (!is_gate && value < -most ? -most : value);
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) scale_kernel(View x, float factor) {
  wait_for_previous();
  start_next();
  change_each<T, N>(x, [&](float value, int64_t, int64_t) { return value * factor; });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) scale_columns_kernel(View x, Vector factors) {
  wait_for_previous();
  start_next();
  change_each<T, N>(
      x, [&](float value, int64_t, int64_t column) { return value * factors.at(column); });
}

__device__ inline float gate_of(float x, model::GateKind kind) {
  if (kind == model::GateKind::as_is) return x;
  if (kind == model::GateKind::softplus) return softplus(x);
  return kind == model::GateKind::silu ? x * sigmoid(x) : sigmoid(x);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) gates_kernel(View x, View gates, model::GateKind kind) {
  wait_for_previous();
  start_next();
  const int64_t width = x.columns / gates.columns;
  change_each<T, N>(x, [&](float value, int64_t row, int64_t column) {
    return value * gate_of(to_float(row_at<T>(gates, row)[column / width]), kind);
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) xielu_kernel(View x, Vector parameters) {
  wait_for_previous();
  start_next();
  const float beta = parameters.at(2);
  const float epsilon = parameters.at(3);
  const float positive = softplus(parameters.at(0));
  const float negative = beta + softplus(parameters.at(1));
  change_each<T, N>(x, [&](float y, int64_t, int64_t) {
    const float bent = y > 0.f ? positive * y * y : negative * (expm1f(fminf(y, epsilon)) - y);
    return bent + beta * y;
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    multiply_factors_kernel(View x, Vector factors, View indices) {
  wait_for_previous();
  start_next();
  const Place at = place_of<N>(x.columns);
  if (at.column >= x.columns) return;
  T* to = row_at<T>(x, at.row) + at.column;
  Pack<T, N> values = load_pack<T, N>(to);
  const bool by_index = indices.columns > 0;
  for (int j = 0; j < N; ++j) {
    const int index = by_index ? row_at<int32_t>(indices, at.row)[at.column + j] : 0;
    values.set(j, values.at(j) * factors.at(index));
  }
  store_pack(to, values);
}

void check_types(const char* op, const View& a, const View& b) {
  if (a.dtype != b.dtype) throw std::logic_error(std::string(op) + ": views differ in type");
}

/// Calls f<T, N> with the views' type and the widest pack that all of them allow.
template <typename F, typename... Views>
void with_packs(F&& f, const View& first, const Views&... others) {
  with_activation_type(first.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>([&](auto n) { f.template operator()<T, decltype(n)::value>(); }, first,
                      others...);
  });
}

}  // namespace

void compute(const ops::Add& op, cudaStream_t stream) {
  check_types(op.kName, op.residual, op.delta);
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(op.residual, stream), op.kName, add_kernel<T, N>, op.residual,
               op.delta);
      },
      op.residual, op.delta);
}

void compute(const ops::LimitGates& op, cudaStream_t stream) {
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(op.x, stream), op.kName, limits_kernel<T, N>, op.x,
               op.limits.bounds());
      },
      op.x);
}

void compute(const ops::GatedActivation& op, cudaStream_t stream) {
  check_types(op.kName, op.out, op.in);
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(op.out, stream), op.kName, gated_kernel<T, N>, op.out, op.in,
               op.activation);
      },
      op.out, op.in.slice_columns(0, op.out.columns));
}

void bias_activation(const View& x, const Vector& bias, model::Activation activation,
                     cudaStream_t stream) {
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(x, stream), "bias_activation", bias_kernel<T, N>, x, bias,
               activation);
      },
      x);
}

void scale_columns(const View& x, const Vector& factors, cudaStream_t stream) {
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(x, stream), "scale_columns", scale_columns_kernel<T, N>, x,
               factors);
      },
      x);
}

void compute(const ops::Scale& op, cudaStream_t stream) {
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(op.x, stream), op.kName, scale_kernel<T, N>, op.x, op.factor);
      },
      op.x);
}

void compute(const ops::CopyHeads& op, cudaStream_t stream) {
  if (op.in.rows > 0) check_types(op.kName, op.out, op.in);
  with_activation_type(op.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch({.grid = dim3(static_cast<unsigned>(op.out.rows)),
            .block = dim3(kThreads),
            .stream = stream},
           op.kName, heads_kernel<T>, op.out, op.in, op.columns);
  });
}

void compute(const ops::MultiplyGates& op, cudaStream_t stream) {
  check_types(op.kName, op.x, op.gates);
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(op.x, stream), op.kName, gates_kernel<T, N>, op.x, op.gates,
               op.kind);
      },
      op.x);
}

void xielu(const View& x, const Vector& parameters, cudaStream_t stream) {
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(x, stream), "xielu", xielu_kernel<T, N>, x, parameters);
      },
      x);
}

void multiply_factors(const View& x, const Vector& factors, const View& indices,
                      cudaStream_t stream) {
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(x, stream), "multiply_factors", multiply_factors_kernel<T, N>, x,
               factors, indices);
      },
      x);
}

void compute(const ops::SoftCap& op, cudaStream_t stream) {
  with_packs(
      [&]<typename T, int N>() {
        launch(over_elements<N>(op.x, stream), op.kName, soft_cap_kernel<T, N>, op.x, op.cap);
      },
      op.x);
}

}  // namespace plimsoll::kernels
