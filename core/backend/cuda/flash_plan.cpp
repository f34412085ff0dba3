#include "backend/cuda/flash_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "base/rounding.h"
#include "memory/arena.h"

namespace plimsoll::backend::cuda {
namespace {

constexpr int64_t kBlocksPerSm = 2;  // resident: what the kernels' shared memory is sized for
// The chunk of a range that is not cut; kernels divide by it and multiply it by 1.
constexpr int64_t kWhole = int64_t{1} << 30;

/// Tokens that the rows of one tile see at most (prefill.cuh:2361).
int64_t reach(const FlashShape& shape, int64_t length, FlashKind kind) {
  const int64_t whole = std::max<int64_t>(length, 1);
  if (shape.window == 0) return whole;
  return std::min(whole, shape.window - 1 + flash_tile(kind));
}

/// Thread blocks beyond one per tile and KV head: four for each multiprocessor keep all of them
/// busy to the end of a step of few or unequal sequences.
int64_t extra_items(const FlashLimits& limits, const FlashShape& shape) {
  return divide_up(4 * limits.multiprocessors, shape.kv_heads);
}

/// KV chunks of the longest sequence with fixed chunks.
int64_t most_fixed_chunks(const FlashLimits& limits, const FlashShape& shape) {
  if (limits.fixed_split == 0) return 0;
  return divide_up(reach(shape, limits.context, FlashKind::split64), limits.fixed_split);
}

/// Partial rows that a round of `sequences` may use.
int64_t round_rows(const FlashLimits& limits, const FlashShape& shape, int64_t sequences) {
  return sequences + std::max(4 * limits.multiprocessors, most_fixed_chunks(limits, shape));
}

bool has_hopper(const FlashLimits& limits, const FlashShape& shape) {
  return limits.hopper && shape.hopper;
}

HopperLimits hopper_limits(const FlashLimits& limits, const FlashShape& shape) {
  return {limits.tokens, shape.heads, shape.head_dim, shape.window, limits.multiprocessors};
}

/// Tiles of one row of a sequence that is split.
int64_t row_tiles(const FlashShape& shape) {
  return shape.group() <= 16 ? 1 : divide_up(shape.group(), 64);
}

}  // namespace

int64_t flash_partial_rows(const FlashLimits& limits, const FlashShape& shape) {
  if (limits.cuts == FlashLimits::Cuts::never) return 0;
  return round_rows(limits, shape, limits.sequences);
}

size_t flash_lse_offset(const FlashLimits& limits, const FlashShape& shape) {
  return memory::Arena::aligned(flash_partial_rows(limits, shape) * shape.heads * shape.head_dim *
                                sizeof(float));
}

size_t flash_workspace_bytes(const FlashLimits& limits, const FlashShape& shape) {
  return flash_lse_offset(limits, shape) +
         memory::Arena::aligned(flash_partial_rows(limits, shape) * shape.heads * sizeof(float));
}

FlashSlab flash_slab(const FlashLimits& limits, const FlashShape& shape) {
  FlashSlab slab;
  const int64_t rows = flash_partial_rows(limits, shape);
  const int64_t fixed = most_fixed_chunks(limits, shape);
  // Query tiles of all sequences: one, and one more for each 64 packed rows.
  const int64_t all_tiles = limits.sequences + divide_up(limits.tokens * shape.group(), 64);
  if (fixed > 0) {
    // A round is closed when the next sequence does not fit, so it is filled to rows - fixed, and
    // that is at least B.
    const int64_t rounds =
        1 + divide_up(limits.sequences * fixed, std::max<int64_t>(1, rows - fixed));
    slab.launches = rounds + kFlashKinds;
    slab.items = all_tiles + row_tiles(shape) * (limits.sequences * fixed + rows);
    slab.merges = limits.sequences;
  } else {
    slab.launches = kFlashKinds;
    slab.items = all_tiles + 2 * extra_items(limits, shape);
    slab.merges = 2 * rows;
  }
  size_t end = 0;
  const auto place = [&end](int64_t count, size_t size) {
    const size_t at = end;
    end = (end + count * size + 15) / 16 * 16;
    return at;
  };
  slab.chunk_tokens = place(slab.launches, sizeof(int32_t));
  slab.page_start = place(limits.sequences + 1, sizeof(int32_t));
  slab.partial_start = place(limits.sequences, sizeof(int32_t));
  slab.merge_row = place(slab.merges, sizeof(int32_t));
  slab.merge_start = place(slab.merges + slab.launches, sizeof(int32_t));
  slab.item_sequence = place(slab.items, sizeof(int32_t));
  slab.item_tile = place(slab.items, sizeof(int32_t));
  slab.item_chunk = place(slab.items, sizeof(int32_t));
  slab.item_valid = place(slab.items, sizeof(bool));
  slab.hopper = end;
  if (has_hopper(limits, shape)) {
    slab.hopper = place(static_cast<int64_t>(hopper_slab(hopper_limits(limits, shape)).bytes),
                        sizeof(std::byte));
  }
  slab.bytes = end;
  return slab;
}

struct FlashPlanner::Arrays {
  std::span<int32_t> chunk_tokens, page_start, partial_start;
  std::span<int32_t> item_sequence, item_tile, item_chunk;
  std::span<uint8_t> item_valid;
  std::span<int32_t> merge_row, merge_start;

  Arrays(const FlashSlab& slab, const FlashLimits& limits, std::byte* base)
      : chunk_tokens(ints(base, slab.chunk_tokens, slab.launches)),
        page_start(ints(base, slab.page_start, limits.sequences + 1)),
        partial_start(ints(base, slab.partial_start, limits.sequences)),
        item_sequence(ints(base, slab.item_sequence, slab.items)),
        item_tile(ints(base, slab.item_tile, slab.items)),
        item_chunk(ints(base, slab.item_chunk, slab.items)),
        item_valid(reinterpret_cast<uint8_t*>(base + slab.item_valid),
                   static_cast<size_t>(slab.items)),
        merge_row(ints(base, slab.merge_row, slab.merges)),
        merge_start(ints(base, slab.merge_start, slab.merges + slab.launches)) {}

 private:
  static std::span<int32_t> ints(std::byte* base, size_t offset, int64_t count) {
    return {reinterpret_cast<int32_t*>(base + offset), static_cast<size_t>(count)};
  }
};

FlashPlanner::FlashPlanner(const FlashShape& shape, const FlashLimits& limits)
    : shape_(shape),
      limits_(limits),
      layout_(flash_slab(limits, shape)),
      partial_rows_(flash_partial_rows(limits, shape)) {
  for (auto& sequences : classes_) sequences.reserve(limits.sequences);
  if (has_hopper(limits, shape)) {
    hopper_.emplace(hopper_limits(limits, shape));
    long_.reserve(limits.sequences);
    on_hopper_.reserve(limits.sequences);
  }
  work_.reserve(limits.sequences);
  launches_.reserve(layout_.launches);
}

int64_t FlashPlanner::tiles(const Sequence& of, FlashKind kind) const {
  return divide_up(of.rows * shape_.group(), flash_tile(kind));
}

int64_t FlashPlanner::chunks(const Sequence& of, FlashKind kind, int64_t chunk) const {
  return divide_up(reach(shape_, of.length, kind), chunk);
}

/// Items that a launch of sequences with one row each has room for, valid or not.
int64_t FlashPlanner::grid_items(FlashKind kind, int64_t sequences) const {
  const int64_t tile_count = sequences * (kind == FlashKind::split16 ? 1 : row_tiles(shape_));
  if (limits_.fixed_split > 0) {
    return row_tiles(shape_) * round_rows(limits_, shape_, sequences);
  }
  return tile_count + extra_items(limits_, shape_);
}

void FlashPlanner::plan(const FlashBatch& batch, std::span<std::byte> slab) {
  if (slab.size() < layout_.bytes) throw std::logic_error("flash plan: the slab is too small");
  const Arrays to(layout_, limits_, slab.data());
  classify(batch);
  launches_.clear();
  used_items_ = used_merges_ = 0;
  for (size_t b = 0; b <= batch.context_length.size(); ++b) {
    to.page_start[b] = static_cast<int32_t>(static_cast<int64_t>(b) * batch.table_stride);
  }
  for (const FlashKind kind : {FlashKind::split16, FlashKind::split64}) {
    emit_split(kind, to);
  }
  for (const FlashKind kind : {FlashKind::direct128, FlashKind::direct64}) {
    emit_direct(kind, to);
  }
  recordable_ = recordable_ && launches_.size() <= 1;
  hopper_blocks_ = 0;
  if (!on_hopper_.empty()) {
    hopper_blocks_ = hopper_->plan(on_hopper_, slab.subspan(layout_.hopper));
  }
}

void FlashPlanner::gather_work(FlashKind kind, std::span<const Sequence> of) {
  work_.clear();
  for (const Sequence& s : of) {
    work_.push_back({reach(shape_, s.length, kind), tiles(s, kind), s.rows});
  }
}

SplitBudget FlashPlanner::budget() const {
  return {partial_rows_, extra_items(limits_, shape_), shape_.kv_heads,
          kBlocksPerSm * limits_.multiprocessors};
}

void FlashPlanner::emit_split(FlashKind kind, const Arrays& to) {
  const std::span<const Sequence> all = classes_[static_cast<size_t>(kind)];
  if (all.empty()) return;
  int64_t chunk = limits_.fixed_split;
  int64_t room = round_rows(limits_, shape_, static_cast<int64_t>(all.size()));
  if (chunk == 0) {
    gather_work(kind, all);
    chunk = choose_split(work_, budget());
    room = partial_rows_;
  }
  for (size_t first = 0, end = 0; first < all.size(); first = end) {
    int64_t rows = 0;
    for (end = first; end < all.size(); ++end) {
      rows += all[end].rows * chunks(all[end], kind, chunk);
      if (rows > room) break;
    }
    if (end == first) throw std::logic_error("flash plan: a sequence exceeds the workspace");
    emit_round(kind, all.subspan(first, end - first), chunk, to);
  }
}

void FlashPlanner::emit_round(FlashKind kind, std::span<const Sequence> of, int64_t chunk,
                              const Arrays& to) {
  FlashLaunch launch = next_launch(kind);
  int64_t rows = 0;
  for (const Sequence& s : of) rows += s.rows;
  if (used_merges_ + rows > layout_.merges) {
    throw std::logic_error("flash plan: more rows to merge than the slab has room for");
  }
  int32_t row = 0;
  for (const Sequence& s : of) {
    to.partial_start[s.index] = row;
    const auto count = static_cast<int32_t>(chunks(s, kind, chunk));
    for (int32_t r = 0; r < s.rows; ++r) {
      const auto m = static_cast<size_t>(launch.first_merge + launch.merge_rows++);
      to.merge_row[m] = s.first + r;
      to.merge_start[m + static_cast<size_t>(launch.index)] = row;
      row += count;
    }
  }
  to.merge_start[launch.first_merge + launch.merge_rows + launch.index] = row;
  emit_items(launch, of, chunk, to);
  const auto sequences = static_cast<int64_t>(of.size());
  if (recordable_ && of.size() == classes_[static_cast<size_t>(kind)].size()) {
    pad_items(launch, grid_items(kind, sequences), to);
  }
  finish(launch);
}

void FlashPlanner::emit_direct(FlashKind kind, const Arrays& to) {
  const std::span<const Sequence> all = classes_[static_cast<size_t>(kind)];
  if (all.empty()) return;
  FlashLaunch launch = next_launch(kind);
  emit_items(launch, all, kWhole, to);
  finish(launch);
}

FlashLaunch FlashPlanner::next_launch(FlashKind kind) const {
  const auto index = static_cast<int64_t>(launches_.size());
  if (index >= layout_.launches) {
    throw std::logic_error("flash plan: more launches than the slab has room for");
  }
  return {kind, index, used_items_, 0, used_merges_, 0};
}

void FlashPlanner::finish(const FlashLaunch& launch) {
  if (launch.index >= layout_.launches || launch.first_merge + launch.merge_rows > layout_.merges) {
    throw std::logic_error("flash plan: more launches than the slab has room for");
  }
  launches_.push_back(launch);
  used_items_ += launch.items;
  used_merges_ += launch.merge_rows;
}

/// Tokens that an item reads: its chunk as far as its last row sees.
int64_t FlashPlanner::item_tokens(const Sequence& of, FlashKind kind, int64_t tile, int64_t chunk,
                                  int64_t chunk_tokens) const {
  const int64_t size = flash_tile(kind), group = shape_.group();
  const int64_t position = of.length - of.rows;  // of the sequence's first row
  const bool whole = sees_ahead_ || limits_.cuts == FlashLimits::Cuts::never;
  const int64_t last =
      whole ? of.length
            : std::min<int64_t>(of.length, position + divide_up((tile + 1) * size, group));
  int64_t first = 0;
  if (shape_.window > 0) {
    first = std::max<int64_t>(0, position + tile * size / group - (shape_.window - 1));
  }
  const int64_t begin = first + chunk * chunk_tokens;
  return std::clamp<int64_t>(last - begin, 0, chunk_tokens);
}

/// Writes the items, the longest first: thread blocks start in the order of the grid, and those
/// that start last should be short. A counting sort over 64 lengths.
void FlashPlanner::emit_items(FlashLaunch& launch, std::span<const Sequence> of, int64_t chunk,
                              const Arrays& to) {
  const auto each = [&](const auto& visit) {
    for (const Sequence& s : of) {
      const int64_t chunk_count = is_split(launch.kind) ? chunks(s, launch.kind, chunk) : 1;
      for (int64_t t = 0; t < tiles(s, launch.kind); ++t)
        for (int64_t c = 0; c < chunk_count; ++c)
          visit(s, t, c, item_tokens(s, launch.kind, t, c, chunk));
    }
  };
  int64_t longest = 1;
  for (const Sequence& s : of)
    longest = std::max<int64_t>(longest, std::min<int64_t>(s.length, chunk));
  const auto bucket = [longest](int64_t tokens) {
    return static_cast<size_t>(63 - tokens * 63 / longest);
  };
  std::array<int64_t, 65> start{};
  each([&](const Sequence&, int64_t, int64_t, int64_t tokens) { ++start[bucket(tokens) + 1]; });
  for (size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
  launch.items = start.back();
  if (launch.first_item + launch.items > layout_.items) {
    throw std::logic_error("flash plan: more items than the slab has room for");
  }
  each([&](const Sequence& s, int64_t tile, int64_t c, int64_t tokens) {
    const auto at = static_cast<size_t>(launch.first_item + start[bucket(tokens)]++);
    to.item_sequence[at] = s.index;
    to.item_tile[at] = static_cast<int32_t>(tile);
    to.item_chunk[at] = static_cast<int32_t>(c);
    to.item_valid[at] = 1;
  });
  to.chunk_tokens[launch.index] = static_cast<int32_t>(chunk);
}

void FlashPlanner::pad_items(FlashLaunch& launch, int64_t items, const Arrays& to) {
  if (items < launch.items || launch.first_item + items > layout_.items) {
    throw std::logic_error("flash plan: the fixed grid does not hold the items");
  }
  for (; launch.items < items; ++launch.items) {
    const auto at = static_cast<size_t>(launch.first_item + launch.items);
    to.item_sequence[at] = to.item_tile[at] = to.item_chunk[at] = 0;
    to.item_valid[at] = 0;
  }
}

}  // namespace plimsoll::backend::cuda
