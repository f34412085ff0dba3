#include "engines/sglang/graphs.h"

#include <algorithm>
#include <span>

namespace plimsoll::engines::sglang {
namespace {

/// No list grows beyond this, whatever a flag asks.
constexpr int64_t kMostSizes = 1 << 16;

struct Stride {
  int64_t first, last, step;
};

constexpr Stride kDecode[] = {
    {1, 2, 1}, {4, 12, 4}, {16, 256, 8}, {272, 496, 16}, {512, INT64_MAX, 32}};
constexpr Stride kSpeculative[] = {
    {1, 8, 1}, {10, 32, 2}, {40, 64, 4}, {72, 256, 8}, {272, INT64_MAX, 16}};
constexpr Stride kPrefill[] = {{4, 32, 4},      {48, 256, 16},     {288, 512, 32},
                               {576, 1024, 64}, {1280, 4096, 256}, {4608, INT64_MAX, 512}};

std::vector<int64_t> sizes_of(std::span<const Stride> strides, int64_t most) {
  std::vector<int64_t> sizes;
  for (const auto& [first, last, step] : strides) {
    for (int64_t size = first; size <= std::min(last, most); size += step) {
      if (std::ssize(sizes) >= kMostSizes) return sizes;
      sizes.push_back(size);
    }
  }
  return sizes;
}

}  // namespace

std::vector<int64_t> decode_sizes(int64_t most, bool speculative, bool padded) {
  most = std::min(most, kMostSizes);
  std::vector<int64_t> sizes;
  if (!padded) {
    for (int64_t size = 1; size <= most; ++size) sizes.push_back(size);
    return sizes;
  }
  sizes = speculative ? sizes_of(kSpeculative, most) : sizes_of(kDecode, most);
  if (most > 0 && (sizes.empty() || sizes.back() != most)) sizes.push_back(most);
  return sizes;
}

std::vector<int64_t> prefill_sizes(int64_t most) {
  return sizes_of(kPrefill, most);
}

}  // namespace plimsoll::engines::sglang
