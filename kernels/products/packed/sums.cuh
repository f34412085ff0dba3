// A lane's sums for a strip of 16 outputs and a tile of rows: `part`, of the current group, and
// `total`, of the groups before it times their scales. Where groups have minimums, `row` is the sum
// of the rows' inputs of the current group.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/products/packed/kernels.h"
#include "kernels/products/pairs.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {

/// Four inputs of a row, as words (halves of which the compiler would keep apart), or zeros past
/// its end, where a chunk's last steps may lie. kWide: rows are aligned to four inputs.
template <bool kWide, typename T>
__device__ void load_four(const T* from, bool some, uint32_t (&words)[sizeof(T)]) {
  using Words = std::conditional_t<sizeof(T) == 4, uint4, uint2>;
  Words four{};
  if (some) {
    if constexpr (kWide) {
      four = *reinterpret_cast<const Words*>(from);
    } else {
      T one[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) one[i] = from[i];
      memcpy(&four, one, sizeof four);
    }
  }
  memcpy(words, &four, sizeof four);
}

/// Rows of 16 bits, on tensor cores: outputs are the rows of mma's a, rows the columns of its b.
template <typename T, int kTiles, bool kWide, bool kMinimums>
class PackedSums {
 public:
  template <typename Rows>
  __device__ explicit PackedSums(const Rows& rows) : count_(rows.count) {
    const int g = static_cast<int>(threadIdx.x % 32 / 4);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) rows_[j] = rows.at(8 * j + g) + threadIdx.x % 4 * 4;
  }
  /// Starts a chunk at its first slot. With one tile, all inputs of the chunk are loaded at once.
  __device__ void start_chunk(int first, const PackedParameters& p) {
    first_ = first;
    left_ = static_cast<int>(p.in.columns) - first - static_cast<int>(threadIdx.x % 4 * 4);
    if constexpr (kTiles == 1) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) load(0, s, ahead_[s]);
    }
  }
  template <typename Reader>
  __device__ void step(const Reader& reader, const uint32_t* upper, const uint32_t* lower, int s,
                       uint32_t upper_zero, uint32_t lower_zero) {
    const Pair a[4] = {reader.pair(upper, 2 * s, upper_zero), reader.pair(lower, 2 * s, lower_zero),
                       reader.pair(upper, 2 * s + 1, upper_zero),
                       reader.pair(lower, 2 * s + 1, lower_zero)};
    if constexpr (kTiles == 1) {
      multiply(0, a, ahead_[s]);
    } else {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        if (8 * j >= count_) continue;  // the same for all threads
        Pair b[2];
        load(j, s, b);
        multiply(j, a, b);
      }
    }
  }
  __device__ void fold(float upper_scale, float lower_scale) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total_[j][i] += part_[j][i] * (i < 2 ? upper_scale : lower_scale);
        part_[j][i] = 0;
      }
  }
  /// After fold().
  __device__ void subtract(float upper_minimum, float lower_minimum) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total_[j][i] -= row_[j][i] * (i < 2 ? upper_minimum : lower_minimum);
        row_[j][i] = 0;
      }
  }
  /// Stores to [rows of the tile][outputs], `stride` from row to row.
  __device__ void store(float* to, int stride) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[(8 * j + lane % 4 * 2 + i % 2) * stride + lane / 4 + i / 2 * 8] = total_[j][i];
  }

 private:
  __device__ void multiply(int j, const Pair (&a)[4], const Pair (&b)[2]) {
    multiply_add<T>(part_[j], a, b);
    if constexpr (kMinimums) {  // a product with ones
      const Pair one = twice<T>(1.f);
      const Pair ones[4] = {one, one, one, one};
      multiply_add<T>(row_[j], ones, b);
    }
  }
  __device__ void load(int j, int s, Pair (&b)[2]) const {
    const int at = s * static_cast<int>(backend::cuda::kStepInputs);
    load_four<kWide>(rows_[j] + first_ + at, at < left_, b);
  }

  static constexpr int kSteps =
      static_cast<int>(backend::cuda::kChunkInputs / backend::cuda::kStepInputs);

  const T* rows_[kTiles];
  int first_ = 0;
  int left_ = 0;  // inputs from the lane's first of the chunk on
  int count_;
  Pair ahead_[kTiles == 1 ? kSteps : 1][2];
  float part_[kTiles][4] = {}, total_[kTiles][4] = {};
  float row_[kMinimums ? kTiles : 1][4] = {};
};

/// Rows of float, on CUDA cores: a lane has its inputs of two outputs and all rows.
template <int kTiles, bool kWide, bool kMinimums>
class PackedSums<float, kTiles, kWide, kMinimums> {
 public:
  static constexpr int kRows = 8 * kTiles;
  template <typename Rows>
  __device__ explicit PackedSums(const Rows& rows) : count_(rows.count) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) rows_[m] = rows.at(m) + threadIdx.x % 4 * 4;
  }
  __device__ void start_chunk(int first, const PackedParameters& p) {
    first_ = first;
    left_ = static_cast<int>(p.in.columns) - first - static_cast<int>(threadIdx.x % 4 * 4);
  }
  template <typename Reader>
  __device__ void step(const Reader& reader, const uint32_t* upper, const uint32_t* lower, int s,
                       uint32_t upper_zero, uint32_t lower_zero) {
    float numbers[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      numbers[0][i] = reader.number(upper, 4 * s + i, upper_zero);
      numbers[1][i] = reader.number(lower, 4 * s + i, lower_zero);
    }
    const int at = s * static_cast<int>(backend::cuda::kStepInputs);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      if (m >= count_) continue;  // the same for all threads
      uint32_t x[4];
      load_four<kWide>(rows_[m] + first_ + at, at < left_, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          part_[half][m] += __uint_as_float(x[i]) * numbers[half][i];
        if constexpr (kMinimums) row_[m] += __uint_as_float(x[i]);
      }
    }
  }
  __device__ void fold(float upper_scale, float lower_scale) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      total_[0][m] += part_[0][m] * upper_scale;
      total_[1][m] += part_[1][m] * lower_scale;
      part_[0][m] = part_[1][m] = 0;
    }
  }
  __device__ void subtract(float upper_minimum, float lower_minimum) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      total_[0][m] -= row_[m] * upper_minimum;
      total_[1][m] -= row_[m] * lower_minimum;
      row_[m] = 0;
    }
  }
  __device__ void store(float* to, int stride) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int m = 0; m < kRows; m += 4) {
        const float* sums = total_[half] + m;
        const float sum = sum_by_lane<4>({sums[0], sums[1], sums[2], sums[3]});
        to[(m + lane % 4) * stride + lane / 4 + half * 8] = sum;
      }
  }

 private:
  const float* rows_[kRows];
  int first_ = 0;
  int left_ = 0;  // inputs from the lane's first of the chunk on
  int count_;
  float part_[2][kRows] = {}, total_[2][kRows] = {};
  float row_[kMinimums ? kRows : 1] = {};
};

}  // namespace plimsoll::kernels
