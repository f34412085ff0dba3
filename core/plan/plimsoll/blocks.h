// KV blocks that a rank has room for, and that a sequence takes.
#pragma once

#include <cstdint>

#include "plan/plimsoll/launch.h"

namespace plimsoll::plan::own {

/// Blocks that a rank has room for, in `budget` bytes of a card or, where `gpu` is null, on this
/// machine; all ranks use as many as the tightest has.
int64_t rank_blocks(const RankLaunch& rank, const Arguments& arguments, const hardware::Gpu* gpu,
                    int64_t budget);

/// Blocks of one sequence of `length` tokens.
int64_t blocks_needed(const RankLaunch& rank, int64_t length);

/// The longest sequence up to `most` tokens that the blocks hold; 0: none.
int64_t longest_sequence(const RankLaunch& rank, int64_t blocks, int64_t most);

}  // namespace plimsoll::plan::own
