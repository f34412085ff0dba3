// A block's norm of a row, for kernels whose rows come from different places.
#pragma once

#include <algorithm>

#include "kernels/rows/rows.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {

inline constexpr int kMaxNormThreads = 1024;
inline constexpr size_t kNormReduceBytes = 32 * sizeof(float);

/// Normalises a row to op.out's row t; x_at(i) loads it from column i on, once for each pack, which
/// lies in shared memory (kNormReduceBytes, then a row) between the passes.
template <typename T, int N, typename XAt>
__device__ void norm_row(const NormOp& op, int64_t t, const XAt& x_at) {
  float* reduce = shared_array<float>();
  T* row = shared_array<T>(kNormReduceBytes);
  const int64_t width = op.in.columns;
  const int64_t first = int64_t{threadIdx.x} * N;
  const int64_t step = int64_t{blockDim.x} * N;

  float sum = 0;
  float squares = 0;
  for (int64_t i = first; i < width; i += step) {
    const Pack<T, N> x = x_at(i);
    for (int j = 0; j < N; ++j) {
      sum += x.at(j);
      squares += x.at(j) * x.at(j);
    }
    store_pack(row + i, x);
  }
  float mean = 0;
  if (op.spec.kind == model::NormKind::layer) {
    mean = block_reduce(sum, 0.f, reduce, Add{}) / static_cast<float>(width);
    squares = 0;
    for (int64_t i = first; i < width; i += step) {
      const Pack<T, N> x = load_pack<T, N>(row + i);
      for (int j = 0; j < N; ++j) squares += (x.at(j) - mean) * (x.at(j) - mean);
    }
  }
  squares = block_reduce(squares, 0.f, reduce, Add{});
  const float factor = 1.f / sqrtf(squares / static_cast<float>(width) + op.spec.epsilon);
  T* out = row_at<T>(op.out, t);
  const int64_t weights = t % op.turns * width;
  for (int64_t i = first; i < width; i += step) {
    Pack<T, N> x = load_pack<T, N>(row + i);
    for (int j = 0; j < N; ++j) {
      float y = (x.at(j) - mean) * factor;
      if (op.weight.present()) y *= op.weight.at(weights + i + j) + op.spec.weight_offset;
      x.set(j, op.bias.present() ? y + op.bias.at(i + j) : y);
    }
    store_pack(out + i, x);
  }
}

/// Loads in's pack from column i of row t on, adds `delta` to it, and stores it back.
template <typename T, int N>
__device__ Pack<T, N> add_to_row(const NormOp& op, int64_t t, int64_t i, const Pack<T, N>& delta) {
  T* at = row_at<T>(op.in, t) + i;
  Pack<T, N> x = load_pack<T, N>(at);
  for (int j = 0; j < N; ++j) x.set(j, x.at(j) + delta.at(j));
  store_pack(at, x);
  return x;
}

/// Threads of a norm's block for rows of `packs` packs: equal for all rows, so that a row's bits do
/// not depend on others.
inline unsigned norm_threads(int64_t packs) {
  return static_cast<unsigned>(
      std::clamp<int64_t>(divide_up<int64_t>(packs, 32) * 32, 32, kMaxNormThreads));
}

}  // namespace plimsoll::kernels
