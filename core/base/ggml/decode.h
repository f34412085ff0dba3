// Values of ggml's packed types, decoded exactly: every value is the product (and difference) in
// float32 that gguf-py computes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ggml/blocks.h"
#include "base/ggml/types.h"

namespace plimsoll {

/// The values [blocks.values] of a block that was taken apart (split_ggml_block).
void decode_ggml_codes(const GgmlBlocks& blocks, const uint8_t* codes, const std::byte* scales,
                       float* to);

/// Decodes `count` values, whole blocks of a type that `run` has (GgmlTypeInfo::is_run), from
/// unaligned bytes. Plain types are converted.
void decode_ggml(GgmlType type, const std::byte* from, int64_t count, float* to);

}  // namespace plimsoll
