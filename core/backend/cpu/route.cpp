#include "backend/cpu/route.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace plimsoll::backend {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

/// The first of the best that is not among `taken`.
int32_t best_of(std::span<const float> scores, std::span<const int32_t> taken) {
  int32_t best = -1;
  for (int32_t e = 0; e < static_cast<int32_t>(scores.size()); ++e) {
    if (best >= 0 && !(scores[e] > scores[best])) continue;
    if (std::ranges::find(taken, e) == taken.end()) best = e;
  }
  return best;
}

float worth(std::span<const float> group, model::GroupScore score) {
  float first = kOut;
  float second = kOut;
  for (const float s : group) {
    second = std::max(second, std::min(first, s));
    first = std::max(first, s);
  }
  return score == model::GroupScore::best || group.size() < 2 ? first : first + second;
}

/// Leaves the scores of the best groups, of equals the first.
void keep_best_groups(std::span<float> scores, const model::RouterSpec& router) {
  const auto groups = static_cast<size_t>(router.groups);
  const size_t size = scores.size() / groups;
  std::array<float, model::kMostExperts> worths;
  for (size_t g = 0; g < groups; ++g) {
    worths[g] = worth(scores.subspan(g * size, size), router.group_score);
  }
  for (size_t g = 0; g < groups; ++g) {
    int64_t better = 0;
    for (size_t other = 0; other < groups; ++other) {
      if (worths[other] > worths[g] || (worths[other] == worths[g] && other < g)) ++better;
    }
    if (better >= router.groups_chosen) std::ranges::fill(scores.subspan(g * size, size), kOut);
  }
}

}  // namespace

void choose_experts(const RowChoice& choice, std::span<const float> scores,
                    const float* choice_bias, const model::RouterSpec& router) {
  std::array<float, model::kMostExperts> buffer;
  const std::span<float> ranks(buffer.data(), scores.size());
  for (size_t e = 0; e < scores.size(); ++e) {
    ranks[e] = choice_bias == nullptr ? scores[e] : scores[e] + choice_bias[e];
  }
  if (router.groups > 1) keep_best_groups(ranks, router);
  float total = 0;
  for (size_t i = 0; i < choice.experts.size(); ++i) {
    choice.experts[i] = best_of(ranks, choice.experts.first(i));
    choice.weights[i] = scores[choice.experts[i]];
    total += choice.weights[i];
  }
  const float divisor = router.normalize ? std::max(total + router.epsilon, router.least_sum) : 1.f;
  for (float& weight : choice.weights) weight = weight / divisor * router.factor;
}

void mix_sparsely(const RowChoice& choice, std::span<float> logits,
                  const model::RouterSpec& router) {
  for (size_t i = 0; i < choice.experts.size(); ++i) {
    const int32_t expert = best_of(logits, choice.experts.first(i));
    const float best = logits[expert];
    float total = 0;
    for (const float s : logits) {
      if ((best - s) / std::max(std::abs(s), best) <= router.nearness) total += std::exp(s - best);
    }
    choice.experts[i] = expert;
    choice.weights[i] = router.factor / total;
    logits[expert] = kOut;
  }
}

}  // namespace plimsoll::backend
