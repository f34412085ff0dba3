// Which thread blocks compute which part of a step's attention by the plain kernel: plain host
// code, no CUDA. A block computes a tile of query rows with the query heads of one KV head over a
// range of keys and values. Ranges longer than a chunk are cut, their partial results merged.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::backend::cuda {

/// Query rows times query heads that a thread block computes.
inline constexpr int32_t kPlainTile = 32;
/// Tokens whose keys are in shared memory at a time. Chunks are multiples of it.
inline constexpr int32_t kPlainTokens = 32;

/// The work of one thread block for each KV head. `rows` 0: nothing to do (fills a recorded grid).
/// No tokens: zeros.
struct AttentionItem {
  int32_t sequence = 0;
  int32_t first_row = 0;  // of the batch
  int32_t rows = 0;
  int32_t kv_begin = 0;  // positions [kv_begin, kv_end)
  int32_t kv_end = 0;
  int32_t partial = -1;  // row i goes to partial row `partial` + i; -1: to the output
};

/// Row `row` of the output is merged from partial rows first, first + step, ... `count` 0: nothing
/// to do.
struct MergeItem {
  int32_t row = 0;
  int32_t first = 0;
  int32_t step = 0;
  int32_t count = 0;
};

/// Shape of a layer's attention that plans depend on, beside the batch.
struct PlainShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t window = 0;  // 0: sees everything
};

/// Query heads of a KV head in a block, and query rows beside them. Example: 32 heads over 8 KV
/// heads: all 4 heads of 8 rows; 71 heads over 1: 24 heads of 1 row, three blocks.
struct PlainTile {
  int32_t parts = 1;  // blocks that a KV head's query heads are divided among
  int32_t heads = 1;
  int32_t rows = 1;
};
PlainTile plain_tile(const PlainShape& shape);

/// Largest steps of a launch.
struct PlainLimits {
  int64_t tokens = 0;           // T
  int64_t sequences = 0;        // B
  int64_t multiprocessors = 0;  // of the device
  /// `none`: every row is summed in one order whatever else is in the batch, wherever chunks of its
  /// prompt begin (--deterministic). Slow where few sequences have long contexts.
  enum class Splits : uint8_t { by_work, none } splits = Splits::by_work;
};

/// Upper bounds of a plan: rows of partial results B + 4 SMs, items a tile more than 4 SMs.
struct PlainBounds {
  int64_t items = 0;
  int64_t merges = 0;
  int64_t partial_rows = 0;
};
/// Bounds of the plans of all steps within the limits.
PlainBounds plain_bounds(const PlainShape& shape, const PlainLimits& limits);
/// Bounds of the plans of steps of `sequences` sequences with a row each: what a recorded step of
/// that size launches.
PlainBounds plain_decode_bounds(int64_t sequences, const PlainLimits& limits);

/// Counts of a step's plan.
struct PlainPlan {
  int64_t items = 0;
  int64_t merges = 0;
  int64_t partial_rows = 0;
};

/// A step's sequences, as in BatchMeta: query_start [B + 1], context_length [B]; a sequence of
/// context 0 is padding. seen_end [T] may be empty.
struct PlainBatch {
  std::span<const int32_t> query_start;
  std::span<const int32_t> context_length;
  std::span<const int32_t> seen_end{};
};

/// Fills `items` and `merges`, which have room for the bounds; entries that the step does not use
/// do nothing.
PlainPlan plan_attention(const PlainBatch& batch, const PlainShape& shape,
                         const PlainLimits& limits, std::span<AttentionItem> items,
                         std::span<MergeItem> merges);

}  // namespace plimsoll::backend::cuda
