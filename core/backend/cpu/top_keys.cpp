#include "backend/cpu/top_keys.h"

#include <array>
#include <bit>

namespace plimsoll::backend {
namespace {

/// A number that is larger where the score is.
uint32_t rank_of(float score) {
  if (score != score) return 0;
  const auto bits = std::bit_cast<uint32_t>(score + 0.f);  // -0 as 0
  constexpr uint32_t kSign = 0x80000000;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// The rank of the last score that is chosen, and how many of that rank are.
struct Threshold {
  uint32_t rank = 0;
  size_t equal = 0;
};

/// Byte by byte from the first: how many ranks begin with those found and have each next one.
Threshold find_threshold(std::span<const float> scores, size_t count) {
  constexpr int kBits = 8;
  Threshold threshold{.rank = 0, .equal = count};
  for (int shift = 32 - kBits; shift >= 0; shift -= kBits) {
    std::array<size_t, size_t{1} << kBits> counts{};
    for (const float score : scores) {
      const uint32_t rank = rank_of(score);
      const uint64_t differs = (uint64_t{rank} ^ threshold.rank) >> (shift + kBits);
      if (differs == 0) ++counts[rank >> shift & (counts.size() - 1)];
    }
    size_t byte = counts.size() - 1;
    for (; counts[byte] < threshold.equal; --byte) threshold.equal -= counts[byte];
    threshold.rank |= static_cast<uint32_t>(byte) << shift;
  }
  return threshold;
}

}  // namespace

void choose_largest(std::span<const float> scores, std::span<int32_t> chosen) {
  Threshold threshold = find_threshold(scores, chosen.size());
  size_t count = 0;
  for (size_t i = 0; i < scores.size() && count < chosen.size(); ++i) {
    const uint32_t rank = rank_of(scores[i]);
    if (rank < threshold.rank || (rank == threshold.rank && threshold.equal == 0)) continue;
    if (rank == threshold.rank) --threshold.equal;
    chosen[count++] = static_cast<int32_t>(i);
  }
}

}  // namespace plimsoll::backend
