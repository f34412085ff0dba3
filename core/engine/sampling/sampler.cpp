#include "engine/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace plimsoll::engine {

namespace {

// Weights of equal buckets differ by less than 1/32; a larger bucket means larger weights.
constexpr size_t kBuckets = 4096;
size_t bucket_of(float weight) {
  return std::bit_cast<uint32_t>(weight) >> 18;
}

}  // namespace

SampleResult Sampler::sample(std::span<const float> logits, const SamplingState& state) {
  const DrawParams params = state.draw_params(state.position());
  if (!state.adjusts(state.position())) return sample(logits, params);
  if (!scan_row(logits).finite) return {Sampled::not_finite};
  const std::span<float> adjusted = values_.first(logits.size());
  state.adjust(logits, adjusted, ids_);
  return sample_adjusted(adjusted, params);
}

SampleResult Sampler::sample_adjusted(std::span<const float> logits, const DrawParams& params) {
  const RowScan scan = scan_row(logits);
  if (std::isinf(scan.maximum) && scan.maximum < 0) return {Sampled::nothing_allowed};
  return {Sampled::token, choose(logits, scan, params)};
}

SampleResult Sampler::sample(std::span<const float> logits, const DrawParams& params) {
  const RowScan scan = scan_row(logits);
  if (!scan.finite) return {Sampled::not_finite};
  return {Sampled::token, choose(logits, scan, params)};
}

TokenId Sampler::choose(std::span<const float> row, const RowScan& scan, const DrawParams& params) {
  if (params.greedy()) return scan.best;
  const float maximum = scan.maximum;
  if (params.top_k > 0 && params.top_k < static_cast<int64_t>(row.size())) {
    return draw_from_top(row, maximum, params);
  }
  const std::span<float> weights = values_.first(row.size());
  double total = exp_weights(row, maximum, static_cast<float>(params.temperature), weights);
  if (params.min_p > 0) {
    const auto least = static_cast<float>(params.min_p);  // the likeliest token's weight is 1
    for (float& weight : weights) weight = weight < least ? 0.f : weight;
    total = sum(weights);
  }
  if (params.top_p < 1) total = keep_nucleus(weights, params.top_p * total);
  return draw_from(weights, params.uniform * total);
}

TokenId Sampler::draw_from_top(std::span<const float> row, float maximum,
                               const DrawParams& params) {
  const auto chosen = static_cast<size_t>(select_top(row, params.top_k, ids_).size());
  const std::span<int32_t> ids = ids_.first(chosen);
  const auto weight = [&](size_t rank) {
    const double distance = static_cast<double>(row[ids[rank]]) - maximum;
    return std::exp(distance / params.temperature);
  };
  size_t count = 0;
  double total = 0;
  for (; count < ids.size(); ++count) {
    const double next = weight(count);
    if (count > 0 && (next < params.min_p || next == 0)) break;
    total += next;
  }
  if (params.top_p < 1) {
    const double wanted = params.top_p * std::exchange(total, 0);
    size_t kept = 0;
    do {
      total += weight(kept++);
    } while (kept < count && total < wanted);
    count = kept;
  }
  // Drawn in the order of ids, as without top_k and as devices do.
  std::sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count));
  double target = params.uniform * total;
  for (size_t i = 0; i + 1 < count; ++i) {
    target -= weight(i);
    if (target < 0) return ids[i];
  }
  return ids[count - 1];
}

// No sort of the vocabulary: a histogram finds the bucket in which the sum reaches `wanted`, and
// only that bucket is sorted.
double Sampler::keep_nucleus(std::span<float> weights, double wanted) {
  std::array<double, kBuckets> mass{};
  for (const float weight : weights) mass[bucket_of(weight)] += static_cast<double>(weight);
  double kept = 0;
  size_t border = bucket_of(1);
  for (; border > 0 && kept + mass[border] < wanted; --border) kept += mass[border];
  size_t count = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (bucket_of(weights[i]) == border) ids_[count++] = static_cast<int32_t>(i);
  }
  std::sort(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(count), BetterId{weights.data()});
  size_t rank = 0;
  while (rank < count && (kept == 0 || kept < wanted)) {
    kept += static_cast<double>(weights[ids_[rank++]]);
  }
  for (; rank < count; ++rank) weights[ids_[rank]] = 0;
  for (float& weight : weights) weight = bucket_of(weight) < border ? 0.f : weight;
  return kept;
}

TokenId Sampler::draw_from(std::span<const float> weights, double target) {
  constexpr size_t kBlock = 1024;
  size_t begin = 0;
  for (; begin + kBlock < weights.size(); begin += kBlock) {
    const double block = sum(weights.subspan(begin, kBlock));
    if (target < block) break;
    target -= block;
  }
  for (size_t i = begin; i < weights.size(); ++i) {
    target -= static_cast<double>(weights[i]);
    if (weights[i] > 0 && target < 0) return static_cast<TokenId>(i);
  }
  // Rounding left a rest: the last one that takes part.
  size_t last = weights.size() - 1;
  while (last > 0 && weights[last] == 0) --last;
  return static_cast<TokenId>(last);
}

}  // namespace plimsoll::engine
