// Storage of weights and KV blocks in the CPU backend: equal bytes for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/rounding.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Output columns of a matrix product that are stored side by side. A matrix [n, k] is stored as
/// strips [n / 32][k / step][32][step], rows past n and columns past k zero; step is 2 for bf16
/// (the pairs that vdpbf16ps multiplies) and 1 for the other types.
inline constexpr int64_t kStrip = 32;
/// Tokens whose scores are computed side by side. A KV block whose size is no multiple of it ends
/// in a tile that is not full.
inline constexpr int64_t kTile = 16;

constexpr int64_t pair_step(DType dtype) {
  return dtype == DType::bf16 ? 2 : 1;
}

/// Columns of a packed matrix, even for every type.
constexpr int64_t padded_columns(int64_t columns) {
  return round_up(columns, 2);
}

/// Bytes of one strip of a matrix with `columns` columns.
inline size_t strip_bytes(int64_t columns, DType dtype) {
  return kStrip * padded_columns(columns) * dtype_size(dtype);
}

/// Bytes of one packed matrix.
inline size_t matrix_bytes(const model::WeightSpec& spec, DType dtype) {
  return round_up(spec.rows(), kStrip) / kStrip * strip_bytes(spec.columns(), dtype);
}

/// Bytes that hold `rows` rows packed for products: floats, or less where the
/// instruction set multiplies 16-bit pairs.
inline size_t packed_rows_bytes(int64_t rows, int64_t columns) {
  return rows * padded_columns(columns) * sizeof(float);
}

/// Columns of a stored key: even, because they are read in pairs; a last one beyond the head is
/// zero.
constexpr int64_t key_columns(int64_t head_dim) {
  return round_up(head_dim, 2);
}

/// Rows that choose their keys together: the workspace has scores of so many.
inline constexpr int64_t kChoiceRows = 64;

/// One layer's part of a KV block, its tokens rounded up to tiles: K as [kv_head][tile][key columns
/// / step][16][step] (lanes run over tokens), then V, where there is any, as [kv_head][token][d
/// rounded up to 16].
struct KvBlock {
  int64_t head_dim = 0;
  int64_t tokens = 0;
  int64_t kv_heads = 0;
  int64_t value_heads = 0;
  size_t element = 0;  // bytes

  KvBlock(const model::AttentionSpec& spec, int64_t block_size, DType dtype)
      : head_dim(spec.head_dim),
        tokens(round_up(block_size, kTile)),
        kv_heads(spec.kv_heads),
        value_heads(spec.has_values ? spec.kv_heads : 0),
        element(dtype_size(dtype)) {}

  [[nodiscard]] int64_t value_stride() const { return round_up(head_dim, 16); }
  /// Offset in bytes of the K tile that holds `slot`, and of the V row of `slot`.
  [[nodiscard]] size_t key_tile(int64_t kv_head, int64_t slot) const {
    return (kv_head * tokens + slot / kTile * kTile) * key_columns(head_dim) * element;
  }
  [[nodiscard]] size_t value_row(int64_t kv_head, int64_t slot) const {
    return (kv_heads * tokens * key_columns(head_dim) +
            (kv_head * tokens + slot) * value_stride()) *
           element;
  }
  [[nodiscard]] size_t bytes() const { return value_row(value_heads, 0); }
};

}  // namespace plimsoll::backend
