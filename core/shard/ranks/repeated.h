// Scales that serve several blocks of a rank's weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/copy_rows.h"
#include "shard/layout.h"

namespace plimsoll::shard {

/// Copies `block` of the slice's tensor, each row and column repeated, converted, to `to`, whose
/// rows begin `to_stride` elements apart.
void copy_repeated(const checkpoint::TensorEntry& tensor, const Slice& slice,
                   const checkpoint::Block& block, DType dtype, std::byte* to, int64_t to_stride);

/// Reverses copy_repeated: copies what `slice` of the rank's tensor `from` holds of the stored
/// `block` to its place in `to`.
void copy_unrepeated(const checkpoint::TensorEntry& from, const Slice& slice,
                     const checkpoint::Block& block, DType dtype, std::byte* to, int64_t to_stride);

}  // namespace plimsoll::shard
