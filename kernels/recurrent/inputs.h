// Inputs of recurrent kernels: the rows of a sequence in a step, and activations of any type, whose
// bits are loaded ahead and converted when they are used.
#pragma once

#include <cstring>

#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/dispatch.h"
#include "kernels/runtime/store_as.h"

namespace plimsoll::kernels {

/// Rows of a sequence, and its state.
struct SequenceRows {
  int64_t first = 0;
  int32_t count = 0;
  float* state = nullptr;
  bool starts = false;  // with zeros: the state is of the slot's last sequence
  bool keeps = false;   // its state; padding has none
};

__device__ inline SequenceRows rows_of(const DeviceBatch& batch, const backend::StateLayer& states,
                                       int64_t sequence) {
  SequenceRows rows;
  rows.first = batch.query_start[sequence];
  rows.count = batch.query_start[sequence + 1] - static_cast<int32_t>(rows.first);
  rows.keeps = batch.context_length[sequence] > 0;
  rows.starts = !rows.keeps || (rows.count > 0 && batch.positions[rows.first] == 0);
  const auto slot = static_cast<size_t>(rows.keeps ? batch.state_slots[sequence] : 0);
  rows.state = reinterpret_cast<float*>(states.pool + slot * states.slot_stride + states.offset);
  return rows;
}

/// Rows of activations of a type that is tested when they are read: the branch is the same for all
/// threads.
struct Input {
  const void* data = nullptr;
  int64_t stride = 0;
  DType dtype = DType::f32;
  bool packed = false;  // columns that are a multiple of four lie so that four are one access
};

inline Input input_of(const View& view) {
  const size_t four = 4 * dtype_size(view.dtype);
  return {.data = view.data,
          .stride = view.stride,
          .dtype = view.dtype,
          .packed = reinterpret_cast<uintptr_t>(view.data) % four == 0 && view.stride % 4 == 0};
}

namespace detail {

template <typename T>
__device__ uint4 bits_of_four(const T* from, int64_t count, bool whole) {
  Pack<T, 4> pack;
  if (whole) {
    pack = load_pack<T, 4>(from);
  } else {
    for (int j = 0; j < 4; ++j) pack.values[j] = j < count ? from[j] : from_float<T>(0.f);
  }
  uint4 bits{};
  memcpy(&bits, &pack, sizeof pack);
  return bits;
}

template <typename T>
__device__ float4 floats_of_four(const uint4& bits) {
  Pack<T, 4> pack;
  memcpy(&pack, &bits, sizeof pack);
  return {pack.at(0), pack.at(1), pack.at(2), pack.at(3)};
}

}  // namespace detail

/// The bits of columns [column, column + 4) of a row, of which `count` exist, zeros after them.
/// `column` is a multiple of four from where `packed` counts.
__device__ inline uint4 load_four(const Input& in, int64_t row, int64_t column, int64_t count) {
  if (count <= 0) return {};
  const int64_t at = row * in.stride + column;
  const bool whole = in.packed && count >= 4;
  switch (in.dtype) {
    case DType::bf16:
      return detail::bits_of_four(static_cast<const __nv_bfloat16*>(in.data) + at, count, whole);
    case DType::f16:
      return detail::bits_of_four(static_cast<const __half*>(in.data) + at, count, whole);
    default:
      return detail::bits_of_four(static_cast<const float*>(in.data) + at, count, whole);
  }
}

__device__ inline float4 to_floats(const Input& in, const uint4& bits) {
  switch (in.dtype) {
    case DType::bf16:
      return detail::floats_of_four<__nv_bfloat16>(bits);
    case DType::f16:
      return detail::floats_of_four<__half>(bits);
    default:
      return detail::floats_of_four<float>(bits);
  }
}

/// One number, of the same type for all threads.
__device__ inline float load_one(const Input& in, int64_t row, int64_t column) {
  return Vector{in.data, in.dtype}.at(row * in.stride + column);
}

/// Four floats of a state, of which `count` exist, zeros after them.
__device__ inline float4 load_state(const float* from, int64_t count, bool packed) {
  if (packed && count >= 4) return *reinterpret_cast<const float4*>(from);
  float four[4];
  for (int j = 0; j < 4; ++j) four[j] = j < count ? from[j] : 0.f;
  return {four[0], four[1], four[2], four[3]};
}

__device__ inline void store_state(float* to, const float4& values, int64_t count, bool packed) {
  if (packed && count >= 4) {
    *reinterpret_cast<float4*>(to) = values;
    return;
  }
  const float four[4] = {values.x, values.y, values.z, values.w};
  for (int j = 0; j < 4; ++j)
    if (j < count) to[j] = four[j];
}

/// Takes a state through a sequence's rows, kStage of them at a time: while these are computed from
/// `stage`, the inputs of the next ones are on their way to registers (Ahead).
template <int kStage, typename Ahead, typename State, typename Op, typename Tile, typename Stage>
__device__ __forceinline__ void go_over_rows(const Op& op, const Tile& tile,
                                             const SequenceRows& rows, Stage& stage) {
  Ahead ahead;
  ahead.load(op, tile, rows, 0);
  State state(op, tile);
  state.load(rows);
  for (int base = 0; base < rows.count; base += kStage) {
    __syncthreads();  // all have used the stage before
    ahead.put(op, tile, rows, base, stage);
    __syncthreads();
    ahead.load(op, tile, rows, base + kStage);
    const int tokens = min(kStage, rows.count - base);
    for (int k = 0; k < tokens; ++k) state.step(stage, k, rows.first + base + k);
  }
  if (rows.keeps) state.store(rows);
}

}  // namespace plimsoll::kernels
