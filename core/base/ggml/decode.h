// Values of ggml's packed types, decoded exactly: every value is the product (and difference) in
// float32 that gguf-py computes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ggml/types.h"

namespace plimsoll {

/// Decodes `count` values, whole blocks of a type that `run` has (GgmlTypeInfo::is_run), from
/// unaligned bytes. Plain types are converted.
void decode_ggml(GgmlType type, const std::byte* from, int64_t count, float* to);

}  // namespace plimsoll
