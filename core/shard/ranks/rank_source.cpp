#include "shard/ranks/rank_source.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::shard {

RankSource::RankSource(const checkpoint::WeightSource& whole, const model::ModelSpec& spec,
                       const model::ModelSpec& rank_spec, const TensorRank& rank)
    : whole_(whole), rank_spec_(rank_spec) {
  for (const ShardTensor& tensor : make_run_tensors(spec, rank.ranks)) {
    weights_.push_back(tensor.weight);
    blocks_.push_back(rank_blocks(tensor, rank.rank, rank.ranks));
  }
}

void RankSource::read_rows(const model::WeightSpec& weight, int64_t first, int64_t count,
                           DType dtype, void* to) const {
  const auto id = static_cast<size_t>(&weight - rank_spec_.weights.data());
  const size_t row_bytes = static_cast<size_t>(weight.columns()) * dtype_size(dtype);
  auto* const out = static_cast<std::byte*>(to);
  const int64_t end = first + count;
  int64_t at = 0;  // the block's first row in the rank's weight
  for (checkpoint::Block block : blocks_[id]) {
    const int64_t from = std::max(first, at), until = std::min(end, at + block.rows);
    block.row += from - at;
    at += std::exchange(block.rows, until - from);
    if (block.rows <= 0) continue;
    whole_.read_block(*weights_[id], block, dtype,
                      out + static_cast<size_t>(from - first) * row_bytes);
  }
  const int64_t padding = std::max(first, at);
  if (padding >= end) return;
  std::memset(out + static_cast<size_t>(padding - first) * row_bytes, 0,
              static_cast<size_t>(end - padding) * row_bytes);
}

}  // namespace plimsoll::shard
