// The batch of one step in the device's memory: backend::BatchMeta as kernels see it.
#pragma once

#include <cstdint>

#include "backend/cuda/footprint.h"

namespace plimsoll::kernels {

/// Flat arrays on the device, and their lengths. A step that replays a graph is padded to the
/// graph's size: rows past the last have row_sequence -1, sequences past the last have no rows.
struct DeviceBatch {
  /// [T] below 0: `drawn[-1 - id]`, the token that logits row -1 - id of the step before drew.
  const int32_t* token_ids = nullptr;
  const int32_t* drawn = nullptr;           // [R of the step before]
  const int32_t* positions = nullptr;       // [T]
  const int32_t* row_sequence = nullptr;    // [T] sequence of each row, -1: padding
  const int32_t* query_start = nullptr;     // [B + 1]
  const int32_t* context_length = nullptr;  // [B] tokens in the cache after this step
  const uint8_t* long_rope = nullptr;       // [B] 1: the long table
  const int32_t* rope_positions = nullptr;  // [kinds * T] by kind, or none
  const int32_t* seen_end = nullptr;        // [T] position after the last that a row sees, or none
  const int32_t* state_slots = nullptr;     // [B] of recurrent mixers, or null
  const int32_t* logits_rows = nullptr;     // [R] rows whose logits are wanted, -1: padding
  /// One table per KV group: [B, table_stride] block numbers.
  const int32_t* block_tables[backend::kMostKvGroups] = {};
  int64_t table_stride = 0;
  int64_t rows = 0;          // T
  int64_t sequences = 0;     // B
  int64_t logits_count = 0;  // R
};

}  // namespace plimsoll::kernels
