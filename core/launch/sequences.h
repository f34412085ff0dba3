// How many sequences a launch answers at once where --max-num-seqs auto leaves it open.
#pragma once

#include <cstdint>
#include <functional>

#include "launch/resolve.h"

namespace plimsoll::launch {

/// Searches for the most sequences at once go no further.
inline constexpr int64_t kMostSequences = 65536;

/// The largest count up to kMostSequences that `holds`, where smaller ones do; 0: none.
int64_t most_sequences(const std::function<bool(int64_t)>& holds);

/// The most sequences of the whole context that the cache of each stage holds at once, under the
/// memory budget of `launch.engine`; at least 1. Throws Error(does_not_fit) where not even one
/// fits.
int64_t most_sequences(const ResolvedLaunch& launch, const backend::Footprint& footprint);

}  // namespace plimsoll::launch
