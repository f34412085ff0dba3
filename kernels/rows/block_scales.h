// Scales of a GGUF file's blocks on the device.
#pragma once

#include <cuda_fp16.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "backend/cuda/packed_layout.h"
#include "base/ggml/blocks.h"
#include "kernels/runtime/numeric.h"

namespace plimsoll::kernels {

/// What a block has beside its codes (GgmlBlocks), and how many groups share it.
struct BlockShape {
  GgmlType type = GgmlType::f32;
  int groups = 1;
  int halves = 1;
  int bytes = 0;  // float16s included

  BlockShape() = default;
  explicit BlockShape(const GgmlBlocks& of)
      : type(of.type),
        groups(static_cast<int>(of.values / of.group)),
        halves(static_cast<int>(of.halves)),
        bytes(static_cast<int>(of.scale_bytes())) {}
};

/// A row's float16s and bytes of one block of a strip, for ggml_scale().
struct RowOfBlock {
  static constexpr int kRows = static_cast<int>(backend::cuda::kStripRows);

  const std::byte* halves;
  const std::byte* bytes;

  __host__ __device__ RowOfBlock(const std::byte* block, int half_count, int row)
      : halves(block + 2 * row), bytes(block + 2 * kRows * half_count + row) {}
  __host__ __device__ float half(int i) const {
    return __half2float(*reinterpret_cast<const __half*>(halves + 2 * kRows * i));
  }
  __host__ __device__ int byte(int64_t i) const {
    return static_cast<int>(bytes[kRows * static_cast<int>(i)]);
  }
  __host__ __device__ static float to_float(int integer) { return static_cast<float>(integer); }
  __host__ __device__ static float of_bits(int bits) { return std::bit_cast<float>(bits); }
  __host__ __device__ static float zero() { return 0; }
  __host__ __device__ static float where(bool condition, float yes, float no) {
    return condition ? yes : no;
  }
};

/// Scale and minimum of a row of a strip whose scales lie at `scales`.
__device__ inline GgmlScale<float> scale_of_block(const std::byte* scales, const BlockShape& shape,
                                                  int64_t group, int row) {
  const int64_t block = group / shape.groups;
  const RowOfBlock from(scales + block * shape.bytes * RowOfBlock::kRows, shape.halves, row);
  return ggml_scale(shape.type, from, group % shape.groups);
}

}  // namespace plimsoll::kernels
