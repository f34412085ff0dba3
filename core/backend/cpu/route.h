// One row of router scores to chosen experts and their weights.
#pragma once

#include <cstdint>
#include <span>

#include "model/model_spec.h"

namespace plimsoll::backend {

/// What a row's choice is written to: `experts.size()` choices.
struct RowChoice {
  std::span<int32_t> experts;
  std::span<float> weights;
};

/// The best experts by `scores` [E], each between 0 and 1, plus `choice_bias` [E] where it is not
/// null; weights as the router has them. At most model::kMostExperts.
void choose_experts(const RowChoice& choice, std::span<const float> scores,
                    const float* choice_bias, const model::RouterSpec& router);

/// RouterScore::sparsemixer's one or two experts by their logits [E], which are not kept.
void mix_sparsely(const RowChoice& choice, std::span<float> logits,
                  const model::RouterSpec& router);

}  // namespace plimsoll::backend
