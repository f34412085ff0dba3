// AWQ's integers of 4 bits as vLLM's moe_wna16 kernel takes them.
#pragma once

#include <cstddef>

#include "checkpoint/copy_rows.h"
#include "shard/layout.h"

namespace plimsoll::shard {

/// Copies a block of an expert's weights [outputs, inputs / 8]: words of 8 inputs, lowest bits
/// first, to `to`, whose rows begin `stride` words apart. The tensor has words of 8 outputs,
/// [inputs, outputs / 8].
void repack_awq_words(const checkpoint::TensorEntry& tensor, const checkpoint::Block& block,
                      std::byte* to, int64_t stride);

/// Copies a block of an expert's zero points [outputs / 2, groups], bytes of 2 outputs, with the
/// slice's repetition of groups. The tensor is [groups, outputs / 8].
void repack_awq_zeros(const checkpoint::TensorEntry& tensor, const Repeat& repeat,
                      const checkpoint::Block& block, std::byte* to, int64_t stride);

}  // namespace plimsoll::shard
