// Workspace of the experts op by its parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/layout.h"

namespace plimsoll::backend {

/// Offsets in bytes. A slot is one (row, choice) pair: row * k + choice. Slots are sorted by
/// expert, and the matrices hold a row for each sorted slot.
struct ExpertsLayout {
  int64_t slots = 0;
  size_t starts = 0;  // i32 [experts + 2]: first sorted slot of each expert, and of identities
  size_t order = 0;   // i32 [slots]: slot of each sorted place
  size_t place = 0;   // i32 [slots]: sorted place of each slot
  size_t packed = 0;  // rows packed for a product
  size_t up = 0;      // f32 [slots, MlpSpec::up_rows]
  size_t gated = 0;   // f32 [slots, intermediate]
  size_t down = 0;    // f32 [slots, hidden]
  size_t bytes = 0;

  ExpertsLayout(int64_t rows, const model::MlpSpec& mlp, int64_t hidden)
      : slots(rows * mlp.experts_per_token) {
    starts = take((mlp.experts + 2) * sizeof(int32_t));
    order = take(slots * sizeof(int32_t));
    place = take(slots * sizeof(int32_t));
    packed = take(packed_rows_bytes(slots, std::max(hidden, mlp.intermediate)));
    up = take(slots * mlp.up_rows() * sizeof(float));
    gated = take(slots * mlp.intermediate * sizeof(float));
    down = take(slots * hidden * sizeof(float));
  }

 private:
  size_t take(size_t size) {
    const size_t at = bytes;
    bytes += (size + 63) / 64 * 64;
    return at;
  }
};

}  // namespace plimsoll::backend
