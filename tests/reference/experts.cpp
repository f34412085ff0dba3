#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/ops.h"

namespace plimsoll::reference {
namespace {

using model::RouterScore;
using model::RouterSpec;

constexpr double kOut = -std::numeric_limits<double>::infinity();

std::vector<double> scores_of(const std::vector<double>& logits, RouterScore kind) {
  std::vector<double> scores;
  const double best = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double x : logits) total += std::exp(x - best);
  for (const double x : logits) {
    scores.push_back(kind == RouterScore::sigmoid ? 1 / (1 + std::exp(-x))
                                                  : std::exp(x - best) / total);
  }
  return scores;
}

/// Takes the groups out that are not among the best.
void choose_groups(std::vector<double>& ranks, const RouterSpec& router) {
  const auto groups = static_cast<size_t>(router.groups);
  const size_t size = ranks.size() / groups;
  std::vector<std::pair<double, size_t>> worths;  // negated, so that the first of equals is first
  for (size_t g = 0; g < groups; ++g) {
    const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(g * size);
    std::vector<double> group(begin, begin + static_cast<std::ptrdiff_t>(size));
    std::sort(group.rbegin(), group.rend());
    const bool two = router.group_score == model::GroupScore::two_best && size > 1;
    worths.emplace_back(-(two ? group[0] + group[1] : group[0]), g);
  }
  std::sort(worths.begin(), worths.end());
  for (size_t i = static_cast<size_t>(router.groups_chosen); i < groups; ++i) {
    const size_t first = worths[i].second * size;
    for (size_t e = first; e < first + size; ++e) ranks[e] = kOut;
  }
}

int32_t take_best(std::vector<double>& ranks) {
  const auto best = std::max_element(ranks.begin(), ranks.end());
  *best = kOut;
  return static_cast<int32_t>(best - ranks.begin());
}

/// Sparse mixing (Liu et al. 2023, "Sparse Backpropagation for MoE Training"), as Phi-3.5-MoE has
/// it without its jitter.
std::vector<Choice> mix(std::vector<double> logits, int64_t k, const RouterSpec& router) {
  std::vector<Choice> chosen;
  for (int64_t i = 0; i < k; ++i) {
    const double best = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (const double s : logits)
      if ((best - s) / std::max(std::abs(s), best) <= double(router.nearness))
        total += std::exp(s - best);
    chosen.push_back({take_best(logits), double(router.factor) / total});
  }
  return chosen;
}

}  // namespace

std::vector<Choice> route(std::vector<double> logits, int64_t k, const RouterSpec& router,
                          const std::vector<double>& choice_bias) {
  if (router.score == RouterScore::sparsemixer) return mix(std::move(logits), k, router);
  const std::vector<double> scores = scores_of(logits, router.score);
  std::vector<double> ranks = scores;
  for (size_t e = 0; e < choice_bias.size(); ++e) ranks[e] += choice_bias[e];
  choose_groups(ranks, router);
  std::vector<Choice> chosen;
  double total = 0;
  for (int64_t i = 0; i < k; ++i) {
    const int32_t expert = take_best(ranks);
    chosen.push_back({expert, scores[static_cast<size_t>(expert)]});
    total += chosen.back().weight;
  }
  for (Choice& choice : chosen) {
    if (router.normalize)
      choice.weight /= std::max(total + double(router.epsilon), double(router.least_sum));
    choice.weight *= double(router.factor);
  }
  return chosen;
}

Matrix experts(const Matrix& in, const std::vector<std::vector<Choice>>& choices,
               const model::MlpSpec& mlp, const ExpertMatrices& weights) {
  const int64_t width = mlp.intermediate;
  const auto bound = [](float limit) { return limit > 0 ? double(limit) : -kOut; };
  const double gate_limit = bound(mlp.limits.gate), up_limit = bound(mlp.limits.up);
  const bool on_input = mlp.weighs == model::ExpertWeighs::input;
  const auto product = [](const Matrix& matrix, int64_t row, const std::vector<double>& x,
                          const std::vector<double>& bias) {
    double sum = bias.empty() ? 0 : bias[static_cast<size_t>(row)];
    for (size_t i = 0; i < x.size(); ++i) sum += x[i] * matrix.at(row, static_cast<int64_t>(i));
    return sum;
  };
  Matrix out(in.rows, in.columns);
  for (int64_t t = 0; t < in.rows; ++t)
    for (const auto& [expert, weight] : choices[static_cast<size_t>(t)]) {
      if (expert >= mlp.experts) {  // returns its input
        for (int64_t i = 0; i < in.columns; ++i) out.at(t, i) += weight * in.at(t, i);
        continue;
      }
      std::vector<double> x, gated;
      for (int64_t i = 0; i < in.columns; ++i) x.push_back(in.at(t, i) * (on_input ? weight : 1));
      for (int64_t n = 0; n < width; ++n) {
        const int64_t row = expert * mlp.up_rows() + n;
        const double gate = product(weights.up, row, x, weights.up_bias);
        if (!mlp.gated) {
          gated.push_back(activate(mlp.activation, gate));
          continue;
        }
        const double up = product(weights.up, row + width, x, weights.up_bias);
        gated.push_back(activate(mlp.activation, std::min(gate, gate_limit)) *
                        (std::clamp(up, -up_limit, up_limit) + double(mlp.up_offset)));
      }
      for (int64_t i = 0; i < in.columns; ++i)
        out.at(t, i) += (on_input ? 1 : weight) *
                        product(weights.down, expert * in.columns + i, gated, weights.down_bias);
    }
  return out;
}

}  // namespace plimsoll::reference
