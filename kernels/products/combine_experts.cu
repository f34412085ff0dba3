// Experts' rows between and after their products: gated, and summed for each token.
#include <algorithm>
#include <bit>

#include "kernels/products/experts.h"
#include "kernels/rows/activation.h"
#include "kernels/runtime/launch.h"
#include "model/slices.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 256;

/// Expert (expert_of) and weight (weight_of) of a slot, (row, choice).
__device__ inline int expert_of(const Choices& choices, int64_t slot) {
  const int64_t k = choices.experts.columns;
  return static_cast<const int32_t*>(
      choices.experts.data)[slot / k * choices.experts.stride + slot % k];
}
__device__ inline float weight_of(const Choices& choices, int64_t slot) {
  const int64_t k = choices.weights.columns;
  return static_cast<const float*>(
      choices.weights.data)[slot / k * choices.weights.stride + slot % k];
}

struct Gating {
  model::Activation activation;
  model::GateLimits limits;  // bounds()
  float up_offset;
  bool weighs_input;
};

/// A block per sorted place.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    gate_kernel(View out, View in, Vector bias, Gating gating, Choices choices, ExpertSlots slots) {
  wait_for_previous();
  start_next();
  const int64_t place = blockIdx.x;
  if (place >= slots.starts[slots.experts]) return;
  const int64_t slot = slots.order[place];
  const int64_t first = (expert_of(choices, slot) - slots.first) * in.columns;  // of its biases
  const float weight = gating.weighs_input ? weight_of(choices, slot) : 1.f;
  const T* from = static_cast<const T*>(in.data) + place * in.stride;
  T* to = static_cast<T*>(out.data) + place * out.stride;
  for (int64_t i = int64_t{threadIdx.x} * N; i < out.columns; i += int64_t{blockDim.x} * N) {
    const Pack<T, N> gates = load_pack<T, N>(from + i);
    const Pack<T, N> ups = load_pack<T, N>(from + out.columns + i);
    Pack<T, N> result;
    for (int j = 0; j < N; ++j) {
      float gate = weight * gates.at(j);
      float up = weight * ups.at(j);
      if (bias.present()) {
        gate += bias.at(first + i + j);
        up += bias.at(first + out.columns + i + j);
      }
      gate = gate > gating.limits.gate ? gating.limits.gate : gate;  // NaN stays
      up = up > gating.limits.up ? gating.limits.up
                                 : (up < -gating.limits.up ? -gating.limits.up : up);
      result.set(j, activate(gating.activation, gate) * (up + gating.up_offset));
    }
    store_pack(to + i, result);
  }
}

/// Experts from `first` up to `end`; a choice past all experts counts as the first of all.
struct SomeExperts {
  int first, end;
};

/// Columns i to i + N of row t, summed over the choices among `some` that the rank has: of rows of
/// T, and inputs of X.
template <typename T, typename X, int N>
__device__ void combine_columns(const CombineExperts& op, const Choices& choices,
                                const ExpertSlots& slots, SomeExperts some, int64_t t, int64_t i,
                                float (&sums)[N]) {
  const int64_t k = choices.experts.columns;
  const bool weighs = op.weighs == model::ExpertWeighs::output;
  for (int64_t slot = t * k; slot < (t + 1) * k; ++slot) {
    const int expert = expert_of(choices, slot);
    const bool returns = expert >= slots.all;  // its input
    const int counted = returns ? 0 : expert;
    if (counted < some.first || counted >= some.end) continue;
    const bool is_own = expert >= slots.first && expert < slots.first + slots.experts;
    const bool biased = op.bias.present() && !returns;
    if (returns ? !op.adds_input : !is_own) continue;
    const float weight = weighs || returns ? weight_of(choices, slot) : 1.f;
    if (returns) {
      const Pack<X, N> row = load_pack<X, N>(row_at<X>(op.input, t) + i);
      for (int j = 0; j < N; ++j) sums[j] += weight * row.at(j);
      continue;
    }
    const Pack<T, N> row = load_pack<T, N>(row_at<T>(op.in, slots.place[slot]) + i);
    const int64_t first = biased ? expert * op.out.columns + i : 0;
    for (int j = 0; j < N; ++j)
      sums[j] += weight * (biased ? row.at(j) + op.bias.at(first + j) : row.at(j));
  }
}

/// A block per row.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(CombineExperts op, Choices choices, ExpertSlots slots) {
  wait_for_previous();
  start_next();
  const int64_t t = blockIdx.x;
  T* to = static_cast<T*>(op.out.data) + t * op.out.stride;
  for (int64_t i = int64_t{threadIdx.x} * N; i < op.out.columns; i += int64_t{blockDim.x} * N) {
    float sums[N] = {};
    combine_columns<T, T>(op, choices, slots, {0, static_cast<int>(slots.all)}, t, i, sums);
    Pack<T, N> result;
    for (int j = 0; j < N; ++j) result.set(j, sums[j]);
    store_pack(to + i, result);
  }
}

/// Sums groups of experts from kFirst on in a tree of pairs; a rank without experts in a branch
/// adds 0 there.
template <typename X, int kFirst, int kCount, int N>
__device__ void combine_groups(const CombineExperts& op, const Choices& choices,
                               const ExpertSlots& slots, int group, int64_t t, int64_t i,
                               float (&sums)[N]) {
  const int64_t first = int64_t{kFirst} * group, end = int64_t{kFirst + kCount} * group;
  if (first >= slots.first + slots.experts || (end <= slots.first && kFirst > 0)) return;
  if constexpr (kCount == 1) {
    const SomeExperts some{static_cast<int>(first), static_cast<int>(end)};
    combine_columns<float, X>(op, choices, slots, some, t, i, sums);
  } else {
    float right[N] = {};
    combine_groups<X, kFirst, kCount / 2>(op, choices, slots, group, t, i, sums);
    combine_groups<X, kFirst + kCount / 2, kCount / 2>(op, choices, slots, group, t, i, right);
    for (int j = 0; j < N; ++j) sums[j] += right[j];
  }
}

/// A block per row. The slice's sum stands at level popcount(slice) of those that wait, and is
/// added to those before it as long as the tree has them as its left. `group`: experts of each.
template <typename X, int N>
__global__ void __launch_bounds__(kThreads)
    combine_slice_kernel(const __grid_constant__ CombineSlice p, int level, int joins, int group,
                         Choices choices, ExpertSlots slots) {
  wait_for_previous();
  start_next();
  const int64_t t = blockIdx.x;
  float* waiting = static_cast<float*>(p.op.out.data) + t * p.op.out.stride;
  const int64_t columns = p.op.out.columns;
  for (int64_t i = int64_t{threadIdx.x} * N; i < columns; i += int64_t{blockDim.x} * N) {
    float sums[N] = {};
    combine_groups<X, 0, model::kMostSlices>(p.op, choices, slots, group, t, i, sums);
    for (int join = 1; join <= joins; ++join) {
      const auto left = load_pack<float, N>(waiting + (level - join) * p.waiting_step + i);
      for (int j = 0; j < N; ++j) sums[j] = left.values[j] + sums[j];
    }
    Pack<float, N> result;
    for (int j = 0; j < N; ++j) result.values[j] = sums[j];
    store_pack(waiting + (level - joins) * p.waiting_step + i, result);
  }
}

/// A block for each row of `out`.
template <int N>
Launch over_rows(const View& out, cudaStream_t stream) {
  const int64_t threads = divide_up<int64_t>(out.columns / N, 32) * 32;
  return {.grid = dim3(static_cast<unsigned>(out.rows)),
          .block = dim3(static_cast<unsigned>(std::clamp<int64_t>(threads, 32, kThreads))),
          .stream = stream};
}

}  // namespace

void gate_experts(const GateExperts& op, const Choices& choices, const ExpertSlots& slots,
                  cudaStream_t stream) {
  if (op.in.dtype != op.out.dtype)
    throw std::logic_error("gate_experts: in and out differ in type");
  const model::MlpSpec& mlp = *op.mlp;
  const Gating gating{.activation = mlp.activation,
                      .limits = mlp.limits.bounds(),
                      .up_offset = mlp.up_offset,
                      .weighs_input = mlp.weighs == model::ExpertWeighs::input};
  with_activation_type(op.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          launch(over_rows<kN>(op.out, stream), "gate_experts", gate_kernel<T, kN>, op.out, op.in,
                 op.bias, gating, choices, slots);
        },
        op.out, op.in.slice_columns(0, op.out.columns));
  });
}

void combine_experts(const CombineExperts& op, const Choices& choices, const ExpertSlots& slots,
                     cudaStream_t stream) {
  if (op.in.dtype != op.out.dtype || op.input.dtype != op.out.dtype)
    throw std::logic_error("combine_experts: in and out differ in type");
  with_activation_type(op.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          launch(over_rows<kN>(op.out, stream), "combine_experts", combine_kernel<T, kN>, op,
                 choices, slots);
        },
        op.out, op.in, op.input);
  });
}

void combine_slice(const CombineSlice& op, const Choices& choices, const ExpertSlots& slots,
                   cudaStream_t stream) {
  const auto& [out, in, input, bias, weighs, adds_input] = op.op;
  const auto group = static_cast<int>(slots.all / backend::cuda::expert_groups(slots.all));
  if (out.dtype != DType::f32 || in.dtype != DType::f32)
    throw std::logic_error("combine_slice: sums are float32");
  const auto slice = static_cast<uint64_t>(op.slice);
  const int level = op.apart ? static_cast<int>(slice) : std::popcount(slice);
  const int joins = op.apart ? 0 : std::countr_one(slice);
  with_activation_type(input.dtype, [&](auto type) {
    using X = typename decltype(type)::type;
    constexpr int kN = kWide<float>;
    const bool packed = is_packed<float, kN>(out) && is_packed<float, kN>(in) &&
                        is_packed<X, kN>(input) && op.waiting_step % kN == 0;
    if (packed)
      launch(over_rows<kN>(out, stream), "combine_slice", combine_slice_kernel<X, kN>, op, level,
             joins, group, choices, slots);
    else
      launch(over_rows<1>(out, stream), "combine_slice", combine_slice_kernel<X, 1>, op, level,
             joins, group, choices, slots);
  });
}

}  // namespace plimsoll::kernels
