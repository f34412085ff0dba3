// Size of a rank's share of a tensor (spec sharded_state.md, 4.1 to 4.3).
#pragma once

#include <cstdint>

#include "shard/layout.h"

namespace plimsoll::shard {

struct Heads {
  int64_t query = 0;
  int64_t kv = 0;
};

/// True when ranks hold the weight. Experts whose groups are cut have other weights instead.
bool is_held(const model::WeightSpec& weight, int64_t ranks);

/// Cuts `tensor`, which has its weight's shape, to what each of `ranks` ranks holds: sets shape and
/// repeat. Throws Error(usage) naming tensor and number where sizes do not divide.
void cut_to_share(ShardTensor& tensor, const Heads& heads, int64_t ranks);

}  // namespace plimsoll::shard
