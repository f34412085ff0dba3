#include "batch/order/block_hashes.h"

namespace plimsoll::batch {
namespace {

constexpr uint64_t kFnvPrime = 1099511628211u;  // FNV-1a

/// Tokens of images are alike, their embeddings are not.
uint64_t hash_images(uint64_t hash, const engine::Images& images, size_t from, size_t to) {
  const auto first = static_cast<int64_t>(from);
  const auto end = static_cast<int64_t>(to);
  for (const engine::Image& image : images.items) {
    for (const engine::ImageRun& run : image.runs) {
      if (run.end() <= first || run.first >= end) continue;
      hash = (hash ^ image.key.low ^ static_cast<uint64_t>(run.embedding)) * kFnvPrime;
    }
  }
  return hash;
}

}  // namespace

std::vector<uint64_t> hash_blocks(const TokenIds& ids, const engine::Images* images,
                                  size_t block_size) {
  uint64_t hash = 14695981039346656037u;
  std::vector<uint64_t> hashes;
  hashes.reserve(ids.size() / block_size);
  for (size_t at = 0; at + block_size <= ids.size(); at += block_size) {
    for (size_t i = at; i < at + block_size; ++i) {
      hash = (hash ^ static_cast<uint64_t>(ids[i])) * kFnvPrime;
    }
    if (images != nullptr) hash = hash_images(hash, *images, at, at + block_size);
    hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace plimsoll::batch
