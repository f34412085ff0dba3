#include "backend/cuda/experts_layout.h"

#include <algorithm>

#include "memory/arena.h"

namespace plimsoll::backend::cuda {
namespace {

constexpr int64_t kFewRows = 8;
constexpr int64_t kFewOfExpert = 16;  // on average: the matrix is read twice

}  // namespace

int64_t expert_tile_rows(int64_t slots, int64_t experts) {
  return slots <= kFewOfExpert * experts ? kFewRows : kExpertTileRows;
}

ExpertsLayout experts_layout(int64_t rows, const model::MlpSpec& mlp, int64_t hidden, DType dtype) {
  const int64_t slots = rows * mlp.experts_per_token;
  ExpertsLayout layout;
  const auto take = [&](int64_t count, size_t size) {
    const size_t at = layout.bytes;
    layout.bytes += memory::Arena::aligned(count * size);
    return at;
  };
  layout.starts = take(mlp.experts + 1, sizeof(int32_t));
  layout.order = take(slots, sizeof(int32_t));
  layout.place = take(slots, sizeof(int32_t));
  // Room for the smaller tiles, so that more rows never take less.
  layout.tiles = take(slots / kFewRows + mlp.experts, 2 * sizeof(int32_t));
  layout.up = take(slots * std::max(mlp.up_rows(), hidden), dtype_size(dtype));
  layout.gated = take(slots * mlp.intermediate, dtype_size(dtype));
  layout.down = layout.up;
  return layout;
}

}  // namespace plimsoll::backend::cuda
