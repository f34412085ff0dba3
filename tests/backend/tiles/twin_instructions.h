// Names of tile instructions stand for the twin's from here on.
#pragma once

#include <immintrin.h>

#include "reference/tile_twin.h"

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbsud
#define _tile_loadconfig plimsoll::testing::tile_twin::load_config
#define _tile_release plimsoll::testing::tile_twin::release
#define _tile_zero plimsoll::testing::tile_twin::zero
#define _tile_loadd plimsoll::testing::tile_twin::load
#define _tile_stored plimsoll::testing::tile_twin::store
#define _tile_dpbf16ps plimsoll::testing::tile_twin::dot_bf16
#define _tile_dpbsud plimsoll::testing::tile_twin::dot_int8_uint8
