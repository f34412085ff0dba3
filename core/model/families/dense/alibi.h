// Slopes of ALiBi, as BLOOM has them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config_reader.h"

namespace plimsoll::model {

/// Slopes of n heads: 2^(-8 (i + 1) / m) with m the largest power of two not above n; further heads
/// 2^(-4 (2j + 1) / m). Empty where the model is only described.
std::vector<float> alibi_slopes(const ConfigReader& config, int64_t heads);

}  // namespace plimsoll::model
