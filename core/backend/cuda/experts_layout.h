// Sizes of the experts op: pure functions, equal for planning (on any machine) and running.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "model/model_spec.h"

namespace plimsoll::backend::cuda {

/// Sorted slots in a tile of many rows.
inline constexpr int64_t kExpertTileRows = 64;

/// Sorted slots in a tile of the products: 8 where experts get few rows (decode), else
/// kExpertTileRows.
int64_t expert_tile_rows(int64_t slots, int64_t experts);

/// Parts of the op's workspace; offsets in bytes.
struct ExpertsLayout {
  size_t starts = 0, order = 0, place = 0, tiles = 0;
  size_t up = 0;     // [slots, 2 intermediate]
  size_t gated = 0;  // [slots, intermediate]
  size_t down = 0;   // [slots, hidden]; where `up` lies
  size_t bytes = 0;
};
ExpertsLayout experts_layout(int64_t rows, const model::MlpSpec& mlp, int64_t hidden, DType dtype);

}  // namespace plimsoll::backend::cuda
