#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "engine/softmax.h"

namespace plimsoll::engine {

namespace {

// Picks from `count` weights, weight(i) for rank i: the ranks whose predecessors weigh less than
// top_p of the total take part.
template <typename Weight>
size_t pick(size_t count, Weight weight, double wanted, double uniform) {
  double mass = 0;
  size_t kept = 0;
  do {
    mass += weight(kept++);
  } while (kept < count && mass < wanted);
  const double target = uniform * mass;
  double passed = 0;
  for (size_t rank = 0; rank < kept; ++rank) {
    passed += weight(rank);
    if (passed > target) return rank;
  }
  return kept - 1;
}

// Sorts the next part of candidates whose first `sorted` are in order; parts grow, so that a short
// nucleus needs no full sort and a long one not much more.
size_t sort_further(std::span<int32_t> ids, size_t sorted, const BetterId& better) {
  const size_t next = std::min(ids.size(), std::max<size_t>(256, sorted * 4));
  const auto begin = ids.begin() + static_cast<ptrdiff_t>(sorted);
  const auto middle = ids.begin() + static_cast<ptrdiff_t>(next);
  if (middle != ids.end()) std::nth_element(begin, middle, ids.end(), better);
  std::sort(begin, middle, better);
  return next;
}

}  // namespace

SampleResult Sampler::sample(std::span<const float> logits, const SamplingState& state) {
  RowScan scan = scan_row(logits);
  if (!scan.finite) return {Sampled::not_finite};
  std::span<const float> row = logits;
  if (state.adjusts()) {
    const std::span<float> adjusted = values_.first(logits.size());
    state.adjust(logits, adjusted);
    row = adjusted;
    scan = scan_row(row);
    if (std::isinf(scan.maximum) && scan.maximum < 0) return {Sampled::nothing_allowed};
  }
  if (state.greedy()) return {Sampled::token, scan.best};
  return {Sampled::token, draw(row, scan.maximum, state)};
}

TokenId Sampler::draw(std::span<const float> row, float maximum, const SamplingState& state) {
  const SamplingParams& params = state.params();
  if (params.top_k > 0 && params.top_k < static_cast<int64_t>(row.size())) {
    return draw_from_top(row, maximum, state);
  }
  const std::span<float> weights = values_.first(row.size());
  double total = exp_weights(row, maximum, static_cast<float>(params.temperature), weights);
  if (params.min_p > 0) {
    const auto least = static_cast<float>(params.min_p);  // the likeliest token's weight is 1
    for (float& weight : weights) weight = weight < least ? 0.f : weight;
    total = sum(weights);
  }
  return params.top_p < 1 ? draw_from_nucleus(total, state) : draw_from_all(total, state);
}

TokenId Sampler::draw_from_top(std::span<const float> row, float maximum,
                               const SamplingState& state) {
  const SamplingParams& params = state.params();
  const std::span<const int32_t> ids = select_top(row, params.top_k, ids_);
  const auto weight = [&](size_t rank) {
    const double distance = static_cast<double>(row[static_cast<size_t>(ids[rank])]) - maximum;
    return std::exp(distance / params.temperature);
  };
  size_t count = 0;
  double total = 0;
  for (; count < ids.size(); ++count) {
    const double next = weight(count);
    if (count > 0 && (next < params.min_p || next == 0)) break;
    total += next;
  }
  const double wanted = params.top_p < 1 ? params.top_p * total : 2 * total;
  return ids[pick(count, weight, wanted, state.uniform())];
}

TokenId Sampler::draw_from_nucleus(double total, const SamplingState& state) {
  const double top_p = state.params().top_p;
  // Tokens below this weigh less together than what the nucleus leaves out.
  const auto least =
      static_cast<float>((1 - top_p) * total / (2 * static_cast<double>(values_.size())));
  size_t found = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    ids_[found] = static_cast<int32_t>(i);
    found += values_[i] > 0 && values_[i] >= least ? 1 : 0;
  }
  const std::span<int32_t> ids = ids_.first(found);
  const BetterId better{values_.data()};
  size_t sorted = 0;
  const auto weight = [&](size_t rank) {
    if (rank == sorted) sorted = sort_further(ids, sorted, better);
    return static_cast<double>(values_[static_cast<size_t>(ids[rank])]);
  };
  return ids[pick(found, weight, top_p * total, state.uniform())];
}

TokenId Sampler::draw_from_all(double total, const SamplingState& state) const {
  constexpr size_t kBlock = 1024;
  double left = state.uniform() * total;
  size_t begin = 0;
  for (; begin + kBlock < values_.size(); begin += kBlock) {
    const double block = sum(values_.subspan(begin, kBlock));
    if (left < block) break;
    left -= block;
  }
  size_t last = begin;  // of positive weight: rounding may leave a rest beyond it
  for (size_t i = begin; i < values_.size(); ++i) {
    const auto weight = static_cast<double>(values_[i]);
    if (weight > 0 && left < weight) return static_cast<TokenId>(i);
    if (weight > 0) last = i;
    left -= weight;
  }
  return static_cast<TokenId>(last);
}

}  // namespace plimsoll::engine
