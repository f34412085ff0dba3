// Arithmetic over rows of logits, shared by sampling and log probabilities. Every result depends on
// the row alone: sums run in a fixed order.
#pragma once

#include <cstdint>
#include <span>

#include "engine/request.h"

namespace plimsoll::engine {

struct RowScan {
  TokenId best = 0;    // the lowest id of the largest value
  float maximum = 0;   // its value
  bool finite = true;  // no NaN, no infinity
};

/// Finds the largest value of a row that is not empty. `finite` covers all values; with NaN in the
/// row `best` and `maximum` are undefined.
RowScan scan_row(std::span<const float> row);

/// weights[i] = exp((row[i] - maximum) / temperature), 0 below 1e-38; returns their sum. `weights`
/// may be `row`. maximum is at least every value of the row; -infinity is allowed in the row.
double exp_weights(std::span<const float> row, float maximum, float temperature,
                   std::span<float> weights);

/// Sum of a row, in float within blocks of 1024 values and in double over them.
double sum(std::span<const float> row);

/// log(sum(exp(row))), given the row's maximum.
double log_sum_exp(std::span<const float> row, float maximum);

/// Orders ids by their values in a row: the larger value first, of equal values the lower id.
struct BetterId {
  const float* row;
  bool operator()(int32_t a, int32_t b) const {
    return row[a] > row[b] || (row[a] == row[b] && a < b);
  }
};

/// Writes the ids of the `count` largest values of a row, ordered by BetterId, to the front of
/// `ids` [row.size()] and returns that part.
std::span<int32_t> select_top(std::span<const float> row, int64_t count, std::span<int32_t> ids);

}  // namespace plimsoll::engine
