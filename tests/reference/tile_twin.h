// Intel's tile instructions (AMX) in plain C++, by the pseudocode of the Software Developer's
// Manual, volume 2: a set of eight tiles for each thread. Throws std::logic_error where the
// processor would fault.
#pragma once

#include <cstdint>

namespace plimsoll::testing::tile_twin {

/// LDTILECFG of 64 bytes; TILERELEASE.
void load_config(const void* config);
void release();

/// TILEZERO, TILELOADD and TILESTORED; rows are `stride` bytes apart.
void zero(int tile);
void load(int tile, const void* from, int64_t stride);
void store(int tile, void* to, int64_t stride);

/// sums [m, n] += rows [m, 2k] x weights [k, 2n], pairs of bf16 (TDPBF16PS).
void dot_bf16(int sums, int rows, int weights);
/// sums [m, n] += rows [m, 4k] x weights [k, 4n], fours of int8 rows and uint8 weights (TDPBSUD).
void dot_int8_uint8(int sums, int rows, int weights);

}  // namespace plimsoll::testing::tile_twin
