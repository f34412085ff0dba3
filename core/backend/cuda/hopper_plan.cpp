#include "backend/cuda/hopper_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "base/rounding.h"

namespace plimsoll::backend::cuda {
namespace {

/// Cost of a work beside its KV tiles, in KV tiles: the query tile's way in and the output's way
/// out. To be measured.
constexpr int32_t kWorkStart = 1;

}  // namespace

bool hopper_computes(const model::AttentionSpec& spec) {
  const bool chunked = spec.window > 0 && spec.window_kind == model::WindowKind::chunk;
  return has_hopper_tile(spec.head_dim) && spec.heads <= kMostHopperHeads && !chunked &&
         spec.soft_cap == 0 && spec.indexer.most == 0 && spec.sinks == model::kNoWeight &&
         spec.alibi.slopes == model::kNoWeight &&
         // The value of masked scores is made for such scales (HopperSoftmax).
         spec.scale >= 1e-5f && spec.scale <= 1;
}

HopperRange hopper_range(int64_t tile, int64_t rows, int64_t context, int64_t head_dim,
                         int64_t window) {
  const HopperTile size = hopper_tile(head_dim);
  const int64_t position = context - rows + tile * size.rows;  // of the tile's first row
  const int64_t end = divide_up(std::min(context, position + size.rows), int64_t{size.tokens});
  if (window == 0) return {0, end};
  return {std::max<int64_t>(position - (window - 1), 0) / size.tokens, end};
}

HopperSlab hopper_slab(const HopperLimits& limits) {
  HopperSlab slab;
  // A sequence has a tile that is not full, and at least kLeastHopperRows rows.
  slab.tiles = limits.tokens / hopper_tile(limits.head_dim).rows + limits.tokens / kLeastHopperRows;
  const auto place = [&slab](int64_t count) {
    const size_t at = slab.bytes;
    slab.bytes = (at + count * sizeof(int32_t) + 15) / 16 * 16;
    return at;
  };
  slab.start = place(limits.multiprocessors + 1);
  slab.tile_sequence = place(slab.tiles);
  slab.tile_index = place(slab.tiles);
  slab.works = place(slab.tiles * limits.heads);
  return slab;
}

HopperPlanner::HopperPlanner(const HopperLimits& limits)
    : limits_(limits), layout_(hopper_slab(limits)) {
  tiles_.reserve(layout_.tiles);
  blocks_.resize(layout_.tiles * limits.heads);
  load_.reserve(limits.multiprocessors);
  next_.resize(limits.multiprocessors + 1);
}

HopperWorks HopperPlanner::works_in(const std::byte* slab) const {
  const auto at = [slab](size_t offset) { return reinterpret_cast<const int32_t*>(slab + offset); };
  return {.start = at(layout_.start),
          .works = at(layout_.works),
          .tile_sequence = at(layout_.tile_sequence),
          .tile_index = at(layout_.tile_index)};
}

int64_t HopperPlanner::count_works(std::span<const Sequence> sequences) const {
  int64_t tiles = 0;
  for (const Sequence& s : sequences) {
    tiles += divide_up<int64_t>(s.rows, hopper_tile(limits_.head_dim).rows);
  }
  return tiles * limits_.heads;
}

void HopperPlanner::gather(std::span<const Sequence> sequences) {
  tiles_.clear();
  if (count_works(sequences) > layout_.tiles * limits_.heads) {
    throw std::logic_error(fmt::format("Hopper plan: {} sequences have more tiles than {}",
                                       sequences.size(), layout_.tiles));
  }
  for (const Sequence& s : sequences) {
    const int64_t count = divide_up<int64_t>(s.rows, hopper_tile(limits_.head_dim).rows);
    for (int64_t tile = 0; tile < count; ++tile) {
      const HopperRange range =
          hopper_range(tile, s.rows, s.length, limits_.head_dim, limits_.window);
      tiles_.push_back({.cost = static_cast<int32_t>(range.end - range.first) + kWorkStart,
                        .sequence = s.index,
                        .index = static_cast<int32_t>(tile)});
    }
  }
  // Tiles of equal cost that share keys stay beside each other.
  std::ranges::sort(tiles_, [](const Tile& a, const Tile& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    return std::pair(a.sequence, a.index) < std::pair(b.sequence, b.index);
  });
}

int64_t HopperPlanner::assign() {
  const int64_t works = std::ssize(tiles_) * limits_.heads;
  const int64_t blocks = std::min(works, limits_.multiprocessors);
  load_.clear();
  for (int64_t block = 0; block < blocks; ++block) {
    load_.emplace_back(0, static_cast<int32_t>(block));
  }
  size_t work = 0;
  for (const Tile& tile : tiles_)
    for (int64_t head = 0; head < limits_.heads; ++head) {
      std::ranges::pop_heap(load_, std::greater<>());
      blocks_[work++] = load_.back().second;
      load_.back().first += tile.cost;
      std::ranges::push_heap(load_, std::greater<>());
    }
  return blocks;
}

int64_t HopperPlanner::plan(std::span<const Sequence> sequences, std::span<std::byte> slab) {
  if (slab.size() < layout_.bytes) throw std::logic_error("Hopper plan: the slab is too small");
  gather(sequences);
  const int64_t blocks = assign();
  const auto ints = [&](size_t offset) { return reinterpret_cast<int32_t*>(slab.data() + offset); };
  for (size_t tile = 0; tile < tiles_.size(); ++tile) {
    ints(layout_.tile_sequence)[tile] = tiles_[tile].sequence;
    ints(layout_.tile_index)[tile] = tiles_[tile].index;
  }
  const std::span<const int32_t> block_of(blocks_.data(), tiles_.size() * limits_.heads);
  std::ranges::fill(next_, 0);
  for (const int32_t block : block_of) ++next_[static_cast<size_t>(block) + 1];
  for (size_t block = 1; block < next_.size(); ++block) next_[block] += next_[block - 1];
  std::ranges::copy(next_, ints(layout_.start));
  int32_t* const works = ints(layout_.works);
  for (size_t work = 0; work < block_of.size(); ++work) {
    const auto heads = static_cast<size_t>(limits_.heads);
    const size_t packed = work / heads * kMostHopperHeads + work % heads;
    works[next_[block_of[work]]++] = static_cast<int32_t>(packed);
  }
  return blocks;
}

}  // namespace plimsoll::backend::cuda
