// Rows of a checkpoint tensor, in the engine's orientation and dtype.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"

namespace plimsoll::checkpoint {

/// Copies rows [first, first + count) of a part to `to` [count, columns], converted.
void copy_rows(const TensorEntry& tensor, const model::Part& part, int64_t first, int64_t count,
               int64_t columns, DType dtype, std::byte* to);

}  // namespace plimsoll::checkpoint
