// Helpers for the tests of attention plans.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/cuda/flash_plan.h"

namespace plimsoll::testing {

/// Sequences as {rows, tokens in the cache}.
using Sequences = std::vector<std::pair<int32_t, int32_t>>;

struct Batch {
  std::vector<int32_t> query_start{0}, context_length;
  std::vector<int32_t> seen_end;  // [T], empty: rows see up to themselves
  int64_t table_stride = 0;

  explicit Batch(const Sequences& sequences) {
    for (const auto& [rows, length] : sequences) {
      query_start.push_back(query_start.back() + rows);
      context_length.push_back(length);
      table_stride = std::max<int64_t>(table_stride, (length + 15) / 16 + 1);
    }
  }
  [[nodiscard]] backend::cuda::FlashBatch view() const {
    return {query_start, context_length, table_stride, !seen_end.empty()};
  }
  /// Lets rows see to the end of their block of `positions` positions.
  void see_blocks(int32_t positions) {
    for (size_t s = 0; s < context_length.size(); ++s) {
      const int32_t rows = query_start[s + 1] - query_start[s];
      for (int32_t p = context_length[s] - rows; p < context_length[s]; ++p) {
        seen_end.push_back(std::min(context_length[s], (p / positions + 1) * positions));
      }
    }
  }
};

inline backend::cuda::FlashLimits limits_of(const Sequences& sequences, int64_t multiprocessors,
                                            int64_t fixed_split) {
  backend::cuda::FlashLimits limits{0, static_cast<int64_t>(sequences.size()), 1, multiprocessors,
                                    fixed_split};
  for (const auto& [rows, length] : sequences) {
    limits.tokens += rows;
    limits.context = std::max<int64_t>(limits.context, length);
  }
  return limits;
}

struct Plan {
  backend::cuda::FlashPlanner planner;
  std::vector<std::byte> slab;

  Plan(const backend::cuda::FlashShape& shape, const backend::cuda::FlashLimits& limits,
       const Batch& batch)
      : planner(shape, limits), slab(planner.layout().bytes) {
    planner.plan(batch.view(), slab);
  }
  [[nodiscard]] int32_t number(size_t offset, int64_t index) const {
    return reinterpret_cast<const int32_t*>(slab.data() + offset)[index];
  }
};

}  // namespace plimsoll::testing
