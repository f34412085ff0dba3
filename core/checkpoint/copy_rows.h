// Rows of a checkpoint tensor, in the engine's orientation and dtype.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"

namespace plimsoll::checkpoint {

/// A rectangle of a tensor, seen as [rows, columns] in the engine's orientation.
struct Block {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
};

/// Copies a block to `to` [rows, columns], converted; `transposed`: the tensor is stored [in, out].
void copy_block(const TensorEntry& tensor, bool transposed, const Block& block, DType dtype,
                std::byte* to);

/// Copies rows [first, first + count) of a part to `to` [count, columns], converted.
void copy_rows(const TensorEntry& tensor, const model::Part& part, int64_t first, int64_t count,
               int64_t columns, DType dtype, std::byte* to);

}  // namespace plimsoll::checkpoint
