// Log probabilities of a position, from its raw logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/request.h"

namespace plimsoll::engine {

/// `token` with its rank, then the `count` best tokens (-1: all) without it. Of equal logits the
/// lower id ranks first. None when the row holds NaN or infinity. `ids` is working memory,
/// [row.size()].
std::optional<PositionLogprobs> position_logprobs(std::span<const float> row, TokenId token,
                                                  int64_t count, std::span<int32_t> ids);

}  // namespace plimsoll::engine
