#include "engine/sampling/logprobs.h"

#include <algorithm>

#include "engine/sampling/softmax.h"

namespace plimsoll::engine {

namespace {

int64_t rank_of(std::span<const float> row, TokenId token) {
  const auto index = static_cast<size_t>(token);
  const float value = row[index];
  uint32_t better = 0;
  for (size_t i = 0; i < index; ++i) better += row[i] >= value ? 1 : 0;
  for (size_t i = index + 1; i < row.size(); ++i) better += row[i] > value ? 1 : 0;
  return int64_t{better} + 1;
}

}  // namespace

std::optional<PositionLogprobs> position_logprobs(std::span<const float> row, TokenId token,
                                                  int64_t count, std::span<int32_t> ids) {
  const RowScan scan = scan_row(row);
  if (!scan.finite) return std::nullopt;
  const double normalizer = log_sum_exp(row, scan.maximum);
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(static_cast<double>(row[id]) - normalizer);
  };
  const auto vocabulary = static_cast<int64_t>(row.size());
  const auto best = select_top(row, count < 0 ? vocabulary : std::min(count, vocabulary), ids);
  PositionLogprobs found;
  found.reserve(best.size() + 1);
  found.push_back({token, logprob(token), rank_of(row, token)});
  for (size_t i = 0; i < best.size(); ++i) {
    if (best[i] != token) found.push_back({best[i], logprob(best[i]), static_cast<int64_t>(i) + 1});
  }
  return found;
}

}  // namespace plimsoll::engine
