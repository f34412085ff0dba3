// Products in AMX's tiles on processors that lack them: what the program has, compiled with a twin
// of the tile instructions (reference/tile_twin.h). All else in it is AVX-512's and VNNI's.
#pragma once

#include "backend/cpu/cpu_backend.h"

namespace plimsoll::testing {

/// Whether this processor has what is beside the tiles.
bool can_run_twin_of_tiles();

/// The same with products in tiles beside AVX-512.
backend::CpuOptions with_twin_of_tiles(backend::CpuOptions options);

/// What the twin makes, and AVX-512 in its place (bf16_vectors).
void multiply_bf16_by_twin(const backend::Bf16Tile& tile);
void multiply_bf16_by_vectors(const backend::Bf16Tile& tile);
void multiply_integers_by_twin(const backend::IntegerTile& tile);

}  // namespace plimsoll::testing
