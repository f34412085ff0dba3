#include "backend/cuda/attention_items.h"

#include <algorithm>
#include <stdexcept>

#include "base/rounding.h"

namespace plimsoll::backend::cuda {
namespace {

/// Shorter chunks cost more in merging than they win.
constexpr int64_t kShortestChunk = 256;
constexpr int64_t kExtraPerProcessor = 4;

/// Calls f(item) for each tile of each sequence, uncut.
template <typename F>
void for_tiles(const PlainBatch& batch, const PlainShape& shape, F f) {
  const auto& [query_start, context_length, seen_end] = batch;
  const int32_t tile = plain_tile(shape).rows;
  for (size_t s = 0; s < context_length.size(); ++s) {
    const int32_t end_row = query_start[s + 1];
    for (int32_t row = query_start[s]; row < end_row; row += tile) {
      AttentionItem item{.sequence = static_cast<int32_t>(s), .first_row = row};
      item.rows = std::min(tile, end_row - row);
      if (context_length[s] > 0) {
        const int64_t position = context_length[s] - (end_row - row);
        item.kv_end = static_cast<int32_t>(position + item.rows);
        if (!seen_end.empty()) {
          item.kv_end = std::ranges::max(seen_end.subspan(row, static_cast<size_t>(item.rows)));
        }
        if (shape.window > 0)
          item.kv_begin = static_cast<int32_t>(std::max<int64_t>(0, position - shape.window + 1));
      }
      f(item);
    }
  }
}

/// First position of the tile that holds a position: chunks end there, and the kernel's tiles begin
/// there wherever a range begins.
int32_t tile_begin(int32_t position) {
  return position - position % kPlainTokens;
}

/// Tokens of a chunk. With work = sum over tiles of tokens (doubled, times rows, for
/// sequences of several rows) and chunks of at least work / (4 SMs) tokens, partial rows stay
/// within B + 4 SMs: of a sequence of one row there are less than 1 + tokens / chunk; any other
/// tile that is cut is longer than a chunk, so it has less than rows * 2 * tokens / chunk.
int64_t chunk_tokens(const PlainBatch& batch, const PlainShape& shape, const PlainLimits& limits) {
  int64_t work = 0;
  for_tiles(batch, shape, [&](const AttentionItem& item) {
    const int64_t tokens = item.kv_end - tile_begin(item.kv_begin);
    const auto s = static_cast<size_t>(item.sequence);
    const bool is_decode = batch.query_start[s + 1] - batch.query_start[s] == 1;
    work += is_decode ? tokens : 2 * item.rows * tokens;
  });
  const int64_t extra = std::max<int64_t>(1, kExtraPerProcessor * limits.multiprocessors);
  return std::max(kShortestChunk, divide_up(divide_up(work, extra), kPlainTokens) * kPlainTokens);
}

}  // namespace

PlainTile plain_tile(const PlainShape& shape) {
  const int64_t group = shape.heads / shape.kv_heads;
  PlainTile tile;
  tile.parts = static_cast<int32_t>(divide_up(group, kPlainTile));
  tile.heads = static_cast<int32_t>(divide_up(group, tile.parts));
  tile.rows = kPlainTile / tile.heads;
  return tile;
}

PlainBounds plain_bounds(const PlainShape& shape, const PlainLimits& limits) {
  const int64_t rows = plain_tile(shape).rows;
  const int64_t extra = std::max<int64_t>(1, kExtraPerProcessor * limits.multiprocessors);
  // Each sequence has a tile that is not full.
  const int64_t tiles = limits.tokens / rows + limits.sequences;
  if (limits.splits == PlainLimits::Splits::none) return {.items = tiles};
  const int64_t partial = limits.sequences + extra;
  return {.items = tiles + extra, .merges = partial / 2, .partial_rows = partial};
}

PlainBounds plain_decode_bounds(int64_t sequences, const PlainLimits& limits) {
  if (limits.splits == PlainLimits::Splits::none) return {.items = sequences};
  const int64_t extra = std::max<int64_t>(1, kExtraPerProcessor * limits.multiprocessors);
  const int64_t partial = sequences + extra;
  return {.items = partial, .merges = std::min(sequences, partial / 2), .partial_rows = partial};
}

PlainPlan plan_attention(const PlainBatch& batch, const PlainShape& shape,
                         const PlainLimits& limits, std::span<AttentionItem> items,
                         std::span<MergeItem> merges) {
  const bool splits = limits.splits == PlainLimits::Splits::by_work;
  const int64_t chunk = splits ? chunk_tokens(batch, shape, limits) : INT32_MAX;
  PlainPlan plan;
  const auto add = [&](const AttentionItem& item) {
    if (plan.items == static_cast<int64_t>(items.size()))
      throw std::logic_error("plan_attention: more items than the bound");
    items[plan.items++] = item;
  };
  for_tiles(batch, shape, [&](AttentionItem item) {
    const int64_t begin = tile_begin(item.kv_begin);
    const int64_t count = divide_up(item.kv_end - begin, chunk);
    if (count <= 1) return add(item);
    if (plan.merges + item.rows > static_cast<int64_t>(merges.size()))
      throw std::logic_error("plan_attention: more merges than the bound");
    for (int32_t i = 0; i < item.rows; ++i)
      merges[plan.merges++] = {.row = item.first_row + i,
                               .first = static_cast<int32_t>(plan.partial_rows) + i,
                               .step = item.rows,
                               .count = static_cast<int32_t>(count)};
    const AttentionItem whole = item;
    for (int64_t c = 0; c < count; ++c) {
      item.kv_begin = static_cast<int32_t>(std::max<int64_t>(whole.kv_begin, begin + c * chunk));
      item.kv_end = static_cast<int32_t>(std::min<int64_t>(whole.kv_end, begin + (c + 1) * chunk));
      item.partial = static_cast<int32_t>(plan.partial_rows);
      plan.partial_rows += item.rows;
      add(item);
    }
  });
  std::fill(items.begin() + static_cast<ptrdiff_t>(plan.items), items.end(), AttentionItem{});
  std::fill(merges.begin() + static_cast<ptrdiff_t>(plan.merges), merges.end(), MergeItem{});
  return plan;
}

}  // namespace plimsoll::backend::cuda
