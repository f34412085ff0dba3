// A paged cache and queries for the twins of attention kernels, and the reference's results.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cuda/flash_fixture.h"
#include "backend/cuda/flash_twin.h"
#include "reference/ops.h"

namespace plimsoll::testing {

inline double uniform(std::mt19937& random) {
  return std::uniform_real_distribution<double>(-1, 1)(random);
}

/// A pool of three layers of which the second is used, blocks in random order; all else is NaN.
inline reference::TwinInput make_input(const model::AttentionSpec& spec, const Sequences& sequences,
                                       const Batch& batch, std::mt19937& random) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  reference::TwinInput in;
  in.spec = spec;
  in.query_start = batch.query_start;
  in.context_length = batch.context_length;
  in.seen_end = batch.seen_end;
  const int64_t d = spec.head_dim, columns = (spec.heads + 2 * spec.kv_heads) * d;
  in.q_stride = static_cast<uint32_t>(columns);
  in.q.assign(static_cast<size_t>(batch.query_start.back() * columns), nan);
  for (int64_t t = 0; t < batch.query_start.back(); ++t)
    for (int64_t c = 0; c < spec.heads * d; ++c)
      in.q[static_cast<size_t>(t * columns + c)] = uniform(random);
  const int64_t layer = 2 * spec.kv_heads * 16 * d;
  in.stride_page = static_cast<uint32_t>(3 * layer);
  in.k_data = static_cast<size_t>(layer);
  in.v_data = static_cast<size_t>(layer + layer / 2);
  in.block_table.assign(sequences.size() * static_cast<size_t>(batch.table_stride), -7);
  std::vector<int32_t> free;
  for (const auto& [rows, length] : sequences)
    for (int32_t i = 0; i < (length + 15) / 16; ++i)
      free.push_back(static_cast<int32_t>(free.size()));
  std::shuffle(free.begin(), free.end(), random);
  in.pool.assign(free.size() * in.stride_page, nan);
  for (size_t b = 0; b < sequences.size(); ++b) {
    const auto [rows, length] = sequences[b];
    // Blocks that no row of this step sees are back in the pool.
    const int64_t first =
        spec.window > 0 ? std::max<int64_t>(0, length - rows - (spec.window - 1)) / 16 : 0;
    for (int64_t i = first; i < (length + 15) / 16; ++i) {
      const int32_t block = free.back();
      free.pop_back();
      in.block_table[b * static_cast<size_t>(batch.table_stride) + static_cast<size_t>(i)] = block;
      for (int64_t e = 0; e < 16 && i * 16 + e < length; ++e)
        for (int64_t h = 0; h < spec.kv_heads; ++h)
          for (int64_t c = 0; c < d; ++c) {
            const size_t at = static_cast<size_t>(block) * in.stride_page +
                              static_cast<size_t>((h * 16 + e) * d + c);
            in.pool[in.k_data + at] = uniform(random);
            in.pool[in.v_data + at] = uniform(random);
          }
    }
  }
  return in;
}

/// Compares one sequence of the twin's result with the reference, which gets no blocks but rows.
inline double largest_difference(const reference::TwinInput& in, const std::vector<double>& out,
                                 size_t b) {
  const model::AttentionSpec& spec = in.spec;
  const int64_t d = spec.head_dim, first = in.query_start[b], rows = in.query_start[b + 1] - first;
  const int64_t length = in.context_length[b];
  double worst = 0;
  if (length == 0) {  // padding
    for (int64_t c = 0; c < rows * spec.heads * d; ++c)
      worst = std::max(worst, std::abs(out[static_cast<size_t>(first * spec.heads * d + c)]));
    return worst;
  }
  reference::Matrix q(rows, spec.heads * d), k(length, spec.kv_heads * d), v(length, k.columns);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < q.columns; ++c)
      q.at(t, c) = in.q[static_cast<size_t>((first + t) * in.q_stride + c)];
  const size_t stride = in.block_table.size() / in.context_length.size();
  for (int64_t p = 0; p < length; ++p)
    for (int64_t c = 0; c < k.columns; ++c) {
      const int32_t block = in.block_table[b * stride + static_cast<size_t>(p / 16)];
      if (block < 0) continue;  // before the window
      const size_t at = static_cast<size_t>(block) * in.stride_page +
                        static_cast<size_t>((c / d * 16 + p % 16) * d + c % d);
      k.at(p, c) = in.pool[in.k_data + at];
      v.at(p, c) = in.pool[in.v_data + at];
    }
  std::vector<int32_t> seen_end(static_cast<size_t>(in.sees_all ? rows : 0),
                                static_cast<int32_t>(length));
  if (!in.seen_end.empty()) {
    seen_end.assign(in.seen_end.begin() + first, in.seen_end.begin() + first + rows);
  }
  const reference::Matrix expected = reference::attention(q, k, v, spec, {}, {}, {}, seen_end);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < q.columns; ++c) {
      const double x = out[static_cast<size_t>((first + t) * q.columns + c)];
      worst = std::isnan(x) ? x : std::max(worst, std::abs(x - expected.at(t, c)));
      if (std::isnan(worst)) return worst;
    }
  return worst;
}

}  // namespace plimsoll::testing
