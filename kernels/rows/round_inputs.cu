#include "kernels/rows/round_inputs.h"

#include <algorithm>
#include <cfloat>

#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

using model::InputRounding;

constexpr int kThreads = 256;
constexpr float kLargestE4m3 = 448;
constexpr float kLargestE2m1 = 6;
/// vLLM's lower bound of a float8 scale.
constexpr float kLeastFp8Scale = 1 / (kLargestE4m3 * 512);
constexpr int kReduceFloats = 32;

__device__ inline float to_e4m3(float x) {
  return to_float(from_float<__nv_fp8_e4m3>(x));
}

/// The nearest integer from -128 to 127, ties to even; NaN stays.
__device__ inline float to_byte(float x) {
  const float low = x < -128.f ? -128.f : x;
  return rintf(low > 127.f ? 127.f : low);
}

__device__ inline float to_e2m1(float x) {
  const float size = fminf(fabsf(x), kLargestE2m1);
  const float step = size < 2 ? 0.5f : size < 4 ? 1.f : 2.f;
  return copysignf(rintf(size / step) * step, x);
}

/// model::mx_exponent's.
__device__ inline float power_of_two(bool fp4, float most) {
  int exponent = 0;
  const float fraction = frexpf(fp4 ? most : most / kLargestE4m3, &exponent);
  return ldexpf(1.f, model::mx_exponent(fp4, fraction, exponent));
}

/// Scale and code of 0 that numbers have in common which are rounded together.
struct Step {
  float scale = 0;    // 0: all are rounded to 0
  float inverse = 0;  // of int8 and float8, which are multiplied by it
  float zero = 0;     // the code of 0; int8_zeros' `most` is the largest and the least negated

  __device__ Step(InputRounding rounding, const float* most, const model::InputScale* stated) {
    switch (rounding) {
      case InputRounding::int8_token:
      case InputRounding::int8_group32:
      case InputRounding::int8_group256:
        scale = *most / 127;
        break;
      case InputRounding::int8_zeros:
        scale = (most[0] + most[1]) / 255;
        zero = rintf(most[1] / scale - 128);
        break;
      case InputRounding::int8_static_zeros:
        scale = stated->scale;
        zero = stated->zero;
        break;
      case InputRounding::fp8_bounded:
        scale = fmaxf(fminf(*most, stated->scale) / kLargestE4m3, kLeastFp8Scale);
        break;
      case InputRounding::fp8_token:
      case InputRounding::fp8_group:
        scale = fmaxf(*most / kLargestE4m3, kLeastFp8Scale);
        break;
      case InputRounding::nvfp4_group:
        scale = to_e4m3(stated->scale * *most / kLargestE2m1) / stated->scale;
        break;
      case InputRounding::mxfp4_group:
      case InputRounding::mxfp8_group:
        scale = power_of_two(rounding == InputRounding::mxfp4_group, *most);
        break;
      default:
        scale = stated->scale;
    }
    inverse = scale >= FLT_MIN ? 1 / scale : 0;
  }
  __device__ float round(InputRounding rounding, float x) const {
    switch (rounding) {
      case InputRounding::int8_token:
      case InputRounding::int8_static:
      case InputRounding::int8_group32:
      case InputRounding::int8_group256:
        return to_byte(x * inverse) * scale;
      case InputRounding::int8_zeros:
      case InputRounding::int8_static_zeros:
        return scale > 0 ? (to_byte(rintf(x * inverse) + zero) - zero) * scale : x;
      case InputRounding::nvfp4_group:
        return scale > 0 ? to_e2m1(x / scale) * scale : 0;
      case InputRounding::mxfp4_group:
        return to_e2m1(x / scale) * scale;
      case InputRounding::mxfp8_group:
        return to_e4m3(x / scale) * scale;
      default:
        return to_e4m3(x * inverse) * scale;
    }
  }
};

/// The largest of each group of a row to `most`, of the whole row where a group has it all. `lead`
/// inputs of the first group lie before the row.
template <typename T>
__device__ void find_largest(const T* row, int64_t columns, int64_t group, int64_t lead,
                             float* most, float* reduce) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (group >= lead + columns) {
    float size = 0;
    for (int64_t i = threadIdx.x; i < columns; i += kThreads)
      size = fmaxf(size, fabsf(to_float(row[i])));
    size = block_reduce(size, 0.f, reduce, Max{});
    if (threadIdx.x == 0) most[0] = size;
    return;
  }
  for (int64_t g = threadIdx.x / 32; g * group < lead + columns; g += kThreads / 32) {
    float size = 0;
    const int64_t begin = g * group - lead;
    for (int64_t i = begin + lane; i < begin + group && i < columns; i += 32)
      if (i >= 0) size = fmaxf(size, fabsf(to_float(row[i])));
    size = warp_reduce(size, Max{});
    if (lane == 0) most[g] = size;
  }
}

/// The largest number of a row and its least one negated, to `range`.
template <typename T>
__device__ void find_range(const T* row, int64_t columns, float* range, float* reduce) {
  float high = -INFINITY, low = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += kThreads) {
    high = fmaxf(high, to_float(row[i]));
    low = fmaxf(low, -to_float(row[i]));
  }
  high = block_reduce(high, -INFINITY, reduce, Max{});
  low = block_reduce(low, -INFINITY, reduce, Max{});
  if (threadIdx.x == 0) {
    range[0] = high;
    range[1] = low;
  }
}

__device__ inline int64_t expert_of(const RoundInputs& op, int64_t place) {
  int64_t low = 0, high = op.experts;  // starts[low] <= place < starts[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (op.starts[middle] <= place ? low : high) = middle;
  }
  return low;
}

template <typename V>
__device__ const V* further(const V* from, int64_t bytes) {
  if (from == nullptr) return from;
  return reinterpret_cast<const V*>(reinterpret_cast<const char*>(from) + bytes);
}

/// The largest number of a row, or those of its groups: as ranks have exchanged them, or found
/// here.
template <typename T>
__device__ const float* most_of(const RoundInputs& op, const T* row, int64_t place, int64_t group,
                                float* reduce) {
  float* own = reduce + kReduceFloats;
  if (op.most != nullptr) return op.most + place * op.most_count;
  if (group == 0) return own;
  if (op.rounding == InputRounding::int8_zeros) {
    find_range(row, op.in.columns, own, reduce);
  } else {
    find_largest(row, op.in.columns, group, 0, own, reduce);
  }
  __syncthreads();
  return own;
}

/// A block per row; `group`: inputs that are rounded together, 0: each by itself.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    round_inputs_kernel(const __grid_constant__ RoundInputs op, int64_t group) {
  wait_for_previous();
  start_next();
  const int64_t place = blockIdx.x;
  const model::InputScale* scale = op.scale;
  const int32_t* order = op.order;
  int64_t from = place;
  if (op.sorted != nullptr) {
    if (place >= op.starts[op.experts]) return;  // a slot of another rank's expert, or of none
    if (op.slots_per_row > 0) from = op.sorted[place] / op.slots_per_row;
    const int64_t bytes = expert_of(op, place) * op.matrix_bytes;
    scale = further(scale, bytes);
    order = further(order, bytes);
  }
  const T* row = static_cast<const T*>(op.in.data) + from * op.in.stride;
  T* out = static_cast<T*>(op.out.data) + place * op.out.stride;
  float* reduce = shared_array<float>();
  const float* most = most_of(op, row, place, group, reduce);
  for (int64_t j = threadIdx.x; j < op.out.columns; j += kThreads) {
    const int64_t column = order != nullptr ? order[j] : j;
    float x = column < 0 ? 0.f : to_float(row[column]);
    if (op.rounding != InputRounding::none && column >= 0)
      x = Step(op.rounding, group > 0 ? most + (op.lead + column) / group : nullptr, scale)
              .round(op.rounding, x);
    out[j] = from_float<T>(x);
  }
}

/// A block per row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    quantize_rows_kernel(const __grid_constant__ RoundInputs op, int64_t group, Fp8Rows to) {
  wait_for_previous();
  start_next();
  const int64_t place = blockIdx.x, columns = op.in.columns;
  const T* row = static_cast<const T*>(op.in.data) + place * op.in.stride;
  const float* most = most_of(op, row, place, group, shared_array<float>());
  const int64_t width = group > 0 ? group : columns;
  auto* codes = reinterpret_cast<__nv_fp8_e4m3*>(to.codes) + place * columns;
  for (int64_t j = threadIdx.x; j < columns; j += kThreads) {
    const int64_t number = (op.lead + j) / width;
    const Step step(op.rounding, most + number, op.scale);
    codes[j] = from_float<__nv_fp8_e4m3>(to_float(row[j]) * step.inverse);
    if (j == 0 || j % width == 0) to.scales[j / width * gridDim.x + place] = step.scale;
  }
}

/// A block per row.
template <typename T>
__global__ void __launch_bounds__(kThreads) find_most_kernel(const __grid_constant__ FindMost op) {
  wait_for_previous();
  start_next();
  const T* row = static_cast<const T*>(op.in.data) + blockIdx.x * op.in.stride;
  float* to = static_cast<float*>(op.to.data) + blockIdx.x * op.to.stride;
  float* reduce = shared_array<float>();
  if (op.range) return find_range(row, op.in.columns, to, reduce);
  const int64_t end = op.first + divide_up(op.lead + op.in.columns, op.group);
  for (int64_t g = threadIdx.x; g < op.to.columns; g += kThreads)
    if (g < op.first || g >= end) to[g] = 0;
  find_largest(row, op.in.columns, op.group, op.lead, to + op.first, reduce);
}

}  // namespace

void find_most(const FindMost& op, cudaStream_t stream) {
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch({.grid = dim3(static_cast<unsigned>(op.in.rows)),
            .block = dim3(kThreads),
            .shared_bytes = kReduceFloats * sizeof(float),
            .stream = stream},
           "find_most", find_most_kernel<T>, op);
  });
}

namespace {

/// Inputs that are rounded together; 0: each by itself.
int64_t group_of(const RoundInputs& op) {
  const int64_t group = model::rounded_together(op.rounding);
  if (group > 1) return group;
  return model::rounds_by_row(op.rounding) ? op.in.columns : 0;
}

/// Bytes of shared memory for the numbers that are found in a row.
size_t shared_bytes_of(const RoundInputs& op) {
  const int64_t group = group_of(op);
  const int64_t groups = group > 0 ? divide_up(op.in.columns, group) : 0;
  const int64_t found = std::max<int64_t>(groups, 2);  // of int8_zeros the row's range
  return static_cast<size_t>(kReduceFloats + found) * sizeof(float);
}

}  // namespace

void quantize_rows(const RoundInputs& op, const Fp8Rows& to, cudaStream_t stream) {
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch({.grid = dim3(static_cast<unsigned>(op.in.rows)),
            .block = dim3(kThreads),
            .shared_bytes = shared_bytes_of(op),
            .stream = stream},
           "quantize_rows", quantize_rows_kernel<T>, op, group_of(op), to);
  });
}

void round_inputs(const RoundInputs& op, cudaStream_t stream) {
  if (op.in.dtype != op.out.dtype)
    throw std::logic_error("round_inputs: in and out differ in type");
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch({.grid = dim3(static_cast<unsigned>(op.out.rows)),
            .block = dim3(kThreads),
            .shared_bytes = shared_bytes_of(op),
            .stream = stream},
           "round_inputs", round_inputs_kernel<T>, op, group_of(op));
  });
}

}  // namespace plimsoll::kernels
