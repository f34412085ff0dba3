// Products in AMX's tiles on processors that lack them: the program's code, compiled with a twin of
// the tile instructions (reference/tile_twin.h). All its other instructions are AVX-512's and
// VNNI's.
#pragma once

#include "backend/cpu/cpu_backend.h"

namespace plimsoll::testing {

/// True when this processor has the instructions beside the tiles.
bool can_run_twin_of_tiles();

/// The options with products in the twin's tiles beside AVX-512.
backend::CpuOptions with_twin_of_tiles(backend::CpuOptions options);

/// Products by the twin, and by AVX-512 in its place (bf16_vectors).
void multiply_bf16_by_twin(const backend::Bf16Tile& tile);
void multiply_bf16_by_vectors(const backend::Bf16Tile& tile);
void multiply_integers_by_twin(const backend::IntegerTile& tile);

}  // namespace plimsoll::testing
