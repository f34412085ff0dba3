// The slow honest twin of the changes that devices make to logits.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace plimsoll::reference {

/// Changes a row's logits by entry `entry` of `drawing`, one token after the other; `own` is the
/// row's own token.
void change_logits(std::span<float> row, const backend::Drawing& drawing, size_t entry,
                   int32_t own);

}  // namespace plimsoll::reference
