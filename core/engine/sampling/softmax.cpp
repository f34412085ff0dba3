#include "engine/sampling/softmax.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace plimsoll::engine {

namespace {

constexpr size_t kLanes = 16;    // independent chains, so that compilers use vector registers
constexpr size_t kBlock = 1024;  // values summed in float before the sum goes on in double

// e^x for x <= 0 within 2 ulp, without branches, so that loops over it vectorise: x = n ln 2 + r
// and a polynomial in r (Cephes expf). Below the smallest normal number the result is 0.
inline float exp_of_negative(float x) {
  constexpr int32_t kSmallest = std::bit_cast<int32_t>(87.33654f);
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const int32_t magnitude = std::bit_cast<int32_t>(x) & 0x7fffffff;
  const float clamped = -std::bit_cast<float>(std::min(magnitude, kSmallest));
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.f;
  const float scale = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127u) << 23);
  const uint32_t keep = magnitude > kSmallest ? 0u : ~0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p * scale) & keep);
}

// Sum of a row's blocks, each of which `block_values` first writes to a buffer.
template <typename BlockValues>
double block_sum(size_t size, BlockValues block_values) {
  double total = 0;
  alignas(64) std::array<float, kBlock> values;
  for (size_t begin = 0; begin < size; begin += kBlock) {
    const size_t count = std::min(kBlock, size - begin);
    block_values(begin, count, values.data());
    std::fill(values.begin() + static_cast<ptrdiff_t>(count), values.end(), 0.f);
    std::array<float, kLanes> sums{};
    for (size_t i = 0; i < kBlock; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane];
    }
    for (const float sum : sums) total += static_cast<double>(sum);
  }
  return total;
}

float maximum_of(std::span<const float> row) {
  std::array<float, kLanes> best;
  best.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      best[lane] = row[i + lane] > best[lane] ? row[i + lane] : best[lane];
    }
  }
  for (; i < row.size(); ++i) best[0] = std::max(best[0], row[i]);
  return *std::ranges::max_element(best);
}

bool all_finite(std::span<const float> row) {
  uint32_t special = 0;  // the exponent's bits are all ones: adding one to them overflows
  for (const float value : row) {
    special |= (std::bit_cast<uint32_t>(value) & 0x7fffffffu) + 0x00800000u;
  }
  return (special & 0x80000000u) == 0;
}

// A heap of the best so far, its worst in front; blocks that hold nothing better are passed over.
std::span<int32_t> select_few(std::span<const float> row, std::span<int32_t> kept) {
  const BetterId better{row.data()};
  std::iota(kept.begin(), kept.end(), 0);
  std::ranges::make_heap(kept, better);
  for (size_t begin = kept.size(); begin < row.size(); begin += 4 * kLanes) {
    const auto block = row.subspan(begin, std::min(4 * kLanes, row.size() - begin));
    if (maximum_of(block) <= row[kept.front()]) continue;
    for (size_t i = begin; i < begin + block.size(); ++i) {
      if (row[i] <= row[kept.front()]) continue;
      std::ranges::pop_heap(kept, better);
      kept.back() = static_cast<int32_t>(i);
      std::ranges::push_heap(kept, better);
    }
  }
  std::ranges::sort_heap(kept, better);
  return kept;
}

}  // namespace

RowScan scan_row(std::span<const float> row) {
  RowScan scan{.best = 0, .maximum = -std::numeric_limits<float>::infinity(), .finite = true};
  std::span<const float> best = row.first(0);
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const auto block = row.subspan(begin, std::min(kBlock, row.size() - begin));
    scan.finite = scan.finite && all_finite(block);
    const float maximum = maximum_of(block);
    if (maximum <= scan.maximum) continue;
    scan.maximum = maximum;
    best = block;
  }
  const auto at = std::ranges::find(best, scan.maximum);
  scan.best = best.empty() ? 0 : static_cast<TokenId>(&*at - row.data());
  return scan;
}

double exp_weights(std::span<const float> row, float maximum, float temperature,
                   std::span<float> weights) {
  return block_sum(row.size(), [&](size_t begin, size_t count, float* values) {
    const float* from = row.data() + begin;
    for (size_t i = 0; i < count; ++i) {
      values[i] = exp_of_negative((from[i] - maximum) / temperature);
    }
    std::copy_n(values, count, weights.data() + begin);
  });
}

double sum(std::span<const float> row) {
  return block_sum(row.size(), [&](size_t begin, size_t count, float* values) {
    std::copy_n(row.data() + begin, count, values);
  });
}

double log_sum_exp(std::span<const float> row, float maximum) {
  const double sum = block_sum(row.size(), [&](size_t begin, size_t count, float* values) {
    const float* from = row.data() + begin;
    for (size_t i = 0; i < count; ++i) values[i] = exp_of_negative(from[i] - maximum);
  });
  return static_cast<double>(maximum) + std::log(sum);
}

std::span<int32_t> select_top(std::span<const float> row, int64_t count, std::span<int32_t> ids) {
  const size_t kept = std::min(static_cast<size_t>(count), row.size());
  if (kept == 0) return ids.first(0);
  if (kept <= 256) return select_few(row, ids.first(kept));
  const auto all = ids.first(row.size());
  std::iota(all.begin(), all.end(), 0);
  const BetterId better{row.data()};
  if (kept < all.size()) {
    std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(kept), all.end(), better);
  }
  std::sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(kept), better);
  return all.first(kept);
}

}  // namespace plimsoll::engine
