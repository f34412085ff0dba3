// Turns one row of router scores into chosen experts and their weights.
#pragma once

#include <cstdint>
#include <span>

#include "model/model_spec.h"

namespace plimsoll::backend {

/// Destination of a row's choice: `experts.size()` choices.
struct RowChoice {
  std::span<int32_t> experts;
  std::span<float> weights;
};

/// Chooses the best experts by `scores` [E], each between 0 and 1, plus `choice_bias` [E] where it
/// is not null; weights by the router's rules. At most model::kMostExperts.
void choose_experts(const RowChoice& choice, std::span<const float> scores,
                    const float* choice_bias, const model::RouterSpec& router);

/// Chooses RouterScore::sparsemixer's one or two experts by their logits [E], which are not kept.
void mix_sparsely(const RowChoice& choice, std::span<float> logits,
                  const model::RouterSpec& router);

}  // namespace plimsoll::backend
