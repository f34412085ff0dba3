// Helpers of the kernels of multiply_experts().
#pragma once

#include "kernels/products/experts.h"

namespace plimsoll::kernels {

struct ExpertParameters {
  View out;
  View in;
  const void* weight;
  int64_t slots_per_row;
  const int2* tiles;
  const int32_t* starts;
  const int32_t* order;
  int64_t weight_stride;
};

/// The rows of a tile of sorted slots.
template <typename T>
struct TileRows {
  const ExpertParameters& p;
  int64_t first;
  int count;

  __device__ TileRows(const ExpertParameters& parameters, int2 tile, int rows)
      : p(parameters), first(tile.y), count(min(rows, p.starts[tile.x + 1] - tile.y)) {}
  __device__ const T* at(int i) const {
    const int64_t row = p.slots_per_row == 0 ? first + i : p.order[first + i] / p.slots_per_row;
    return static_cast<const T*>(p.in.data) + row * p.in.stride;
  }
};

/// Products of tiles of 64 rows on tensor cores: bf16 or f16, rows of `in` and of the matrices
/// aligned to 16 bytes and k a multiple of 8.
void multiply_tiles(const ExpertParameters& parameters, int64_t tiles, cudaStream_t stream);
inline constexpr int kTileRows = static_cast<int>(kExpertTileRows);

}  // namespace plimsoll::kernels
