// Selection of the best of many scores.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::backend {

/// Writes the indices of the chosen.size() largest scores, ascending; of equal ones the first, NaN
/// below all numbers. There are at least as many scores.
void choose_largest(std::span<const float> scores, std::span<int32_t> chosen);

}  // namespace plimsoll::backend
