// Which thread blocks compute which part of a step's prefill on Hopper: plain host code, no CUDA.
// The kernels (kernels/attention/hopper_kernel.cuh) are FlashInfer's of FlashAttention 3's design.
// A block stays on its multiprocessor and computes one work after the other: a tile of query rows
// of a sequence with one query head. Works are given to the blocks here, the longest first, each to
// the block with the least to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::backend::cuda {

/// Query rows of a work, and tokens whose keys and values are loaded at a time: FlashInfer's sizes
/// for paged caches (prefill_sm90.cuh:558).
struct HopperTile {
  int rows = 0;
  int tokens = 0;
};
constexpr HopperTile hopper_tile(int64_t head_dim) {
  return head_dim == 64    ? HopperTile{192, 96}
         : head_dim == 128 ? HopperTile{128, 96}
                           : HopperTile{128, 32};
}
/// True when there are kernels for heads of `head_dim` columns.
constexpr bool has_hopper_tile(int64_t head_dim) {
  return head_dim == 64 || head_dim == 128 || head_dim == 256;
}

/// True when the kernels compute a layer's attention: causal, perhaps with a window, heads of these
/// sizes, and nothing else.
bool hopper_computes(const model::AttentionSpec& spec);

/// Most query heads that a work can name.
inline constexpr int32_t kMostHopperHeads = 1024;
/// Fewest rows of a sequence for these kernels: with fewer its tiles would be half empty. Bounds
/// the number of tiles.
inline constexpr int64_t kLeastHopperRows = 256;
/// Tokens of context from which a prefill takes these kernels where a launch has not measured it.
/// An estimate: in an 8B model's attention over n tokens they save n^2 * 8 KiFLOP of work at half
/// the rate, 14 us a layer at 1,024 tokens and 57 at 2,048, and cost a launch that overlaps with
/// nothing.
inline constexpr int64_t kHopperFrom = 2048;

/// One work; all numbers are of the step's batch.
struct HopperPiece {
  int32_t tile = 0;  // of its sequence
  int32_t head = 0;  // query head
  int32_t sequence = 0;
  int32_t first_row = 0;  // of the sequence, in the batch
  int32_t rows = 0;       // of the sequence
  int32_t context = 0;    // tokens of the sequence
  int32_t entry = 0;      // of the block table, of the sequence's first block
};

/// Lists that the blocks read. The kernel and its twin on the host read them by one function.
struct HopperWorks {
  const int32_t* start = nullptr;  // [blocks + 1], where a block's works begin
  const int32_t* works = nullptr;  // tile * kMostHopperHeads + head
  const int32_t* tile_sequence = nullptr;
  const int32_t* tile_index = nullptr;      // of its sequence
  const int32_t* query_start = nullptr;     // [B + 1]
  const int32_t* context_length = nullptr;  // [B]
  int32_t table_stride = 0;

  [[nodiscard]] constexpr HopperPiece piece(int32_t at) const {
    const int32_t tile = works[at] / kMostHopperHeads;
    const int32_t sequence = tile_sequence[tile];
    const int32_t first = query_start[sequence];
    return {.tile = tile_index[tile],
            .head = works[at] % kMostHopperHeads,
            .sequence = sequence,
            .first_row = first,
            .rows = query_start[sequence + 1] - first,
            .context = context_length[sequence],
            .entry = sequence * table_stride};
  }
};

/// KV tiles that a query tile reads: the causal bound, without those before the first row's window.
struct HopperRange {
  int64_t first = 0, end = 0;  // tiles
};
HopperRange hopper_range(int64_t tile, int64_t rows, int64_t context, int64_t head_dim,
                         int64_t window);

/// Limits that plans depend on, beside the batch.
struct HopperLimits {
  int64_t tokens = 0;  // T
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;  // 0: sees everything
  int64_t multiprocessors = 0;
};

/// Byte offsets in the slab of a plan.
struct HopperSlab {
  size_t start = 0;          // [SMs + 1] i32
  size_t works = 0;          // [tiles * heads] i32
  size_t tile_sequence = 0;  // [tiles] i32
  size_t tile_index = 0;     // [tiles] i32
  size_t bytes = 0;
  int64_t tiles = 0;  // room
};
HopperSlab hopper_slab(const HopperLimits& limits);

/// True when a sequence's rows of a step go to these kernels: enough rows to fill tiles, over a
/// context from which the kernels pay. `from` 0: never.
constexpr bool pays_on_hopper(int64_t rows, int64_t context, int64_t from) {
  return from > 0 && rows >= kLeastHopperRows && context >= from;
}

class HopperPlanner {
 public:
  /// Allocates all memory that plans need.
  explicit HopperPlanner(const HopperLimits& limits);

  struct Sequence {
    int32_t index = 0;  // in the batch
    int32_t rows = 0;
    int32_t length = 0;  // tokens
  };
  /// Number of works of sequences, each of at least kLeastHopperRows rows.
  [[nodiscard]] int64_t count_works(std::span<const Sequence> sequences) const;
  /// Fills the slab (hopper_slab().bytes). Returns the blocks that have works.
  int64_t plan(std::span<const Sequence> sequences, std::span<std::byte> slab);

  [[nodiscard]] const HopperSlab& layout() const { return layout_; }
  /// Arrays of a slab, wherever it lies.
  [[nodiscard]] HopperWorks works_in(const std::byte* slab) const;

 private:
  struct Tile {
    int32_t cost = 0;  // KV tiles
    int32_t sequence = 0, index = 0;
  };
  void gather(std::span<const Sequence> sequences);
  /// Assigns each work to a block, in blocks_; returns the blocks that have works.
  int64_t assign();

  HopperLimits limits_;
  HopperSlab layout_;
  std::vector<Tile> tiles_;                        // the longest first
  std::vector<int32_t> blocks_;                    // by work
  std::vector<std::pair<int64_t, int32_t>> load_;  // a heap: the least first
  std::vector<int32_t> next_;                      // by block
};

}  // namespace plimsoll::backend::cuda
