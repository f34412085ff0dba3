// Which thread blocks compute which part of a step's attention: plain host code, no CUDA. The
// kernels are FlashInfer's paged prefill family (flash_kernel.cuh); this takes the place of its
// planner, with scratch that is bounded by a formula of the launch's limits.
//
// A thread block computes one query tile (16, 64 or 128 packed rows: query row x query head of one
// KV head) over one chunk of keys and values. Sequences fall in classes, a launch each:
//
//   split16    one row (decode), or few: at most 16 packed rows. The KV range is cut in chunks;
//              partial results go to the workspace and are merged.
//   split64    the same with more packed rows: many query heads per KV head, or short prefills
//              that alone would leave most of the device idle.
//   direct64   prefill of up to 64 packed rows, or head sizes above 128; written at once.
//   direct128  all other prefill.
//
// Where the card and the layer allow it, long prefills leave these classes for the kernels of
// hopper_plan.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/flash_split.h"
#include "backend/cuda/hopper_plan.h"
#include "model/model_spec.h"

namespace plimsoll::backend::cuda {

/// Shape of a layer's attention, beside the batch: layers of one shape share a plan.
struct FlashShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;       // 0: sees everything; else the last `window` positions, itself included
  bool hopper = false;      // hopper_computes()
  int64_t whole_group = 0;  // AttentionSpec::group(), by which classes are chosen for fixed chunks
  [[nodiscard]] int64_t group() const { return heads / kv_heads; }
  friend bool operator==(const FlashShape&, const FlashShape&) = default;
};

inline FlashShape flash_shape(const model::AttentionSpec& spec) {
  return {spec.heads,  spec.kv_heads,         spec.head_dim,
          spec.window, hopper_computes(spec), spec.group()};
}

/// Largest steps of a launch.
struct FlashLimits {
  int64_t tokens = 0;           // T
  int64_t sequences = 0;        // B
  int64_t context = 0;          // tokens of the longest sequence
  int64_t multiprocessors = 0;  // of the device
  /// Tokens of a KV chunk, a multiple of 128, for results that do not depend on the batch; 0:
  /// chosen by the batch. With it only sequences of one row are split, and a prefill's tiles depend
  /// on nothing but its own rows, nor on how many of a KV head's query heads a rank has.
  int64_t fixed_split = 0;
  /// `never`: no KV range is cut, so there are no partial results (image encoders).
  enum class Cuts : uint8_t { by_work, never } cuts = Cuts::by_work;
  bool hopper = false;  // the card has the kernels of hopper_plan.h, for caches of this type
};

/// Most rows of partial results that a batch within the limits needs: B + 4 SMs, and no less than
/// one sequence of fixed chunks. With fixed chunks larger batches take several rounds.
int64_t flash_partial_rows(const FlashLimits& limits, const FlashShape& shape);

/// Workspace of the op in bytes: partial outputs [rows, heads, head_dim] f32, then their
/// log-sum-exps [rows, heads] f32. Grows with every argument but fixed_split.
size_t flash_workspace_bytes(const FlashLimits& limits, const FlashShape& shape);
/// Offset of the log-sum-exps in the workspace.
size_t flash_lse_offset(const FlashLimits& limits, const FlashShape& shape);

/// A step's sequences, as in BatchMeta: query_start [B + 1], context_length [B]. A sequence of
/// context 0 is padding; its row is zeros.
struct FlashBatch {
  std::span<const int32_t> query_start;
  std::span<const int32_t> context_length;
  int64_t table_stride = 0;
  bool sees_ahead = false;  // some rows see rows after them (BatchMeta::seen_end)
};

enum class FlashKind : uint8_t { split16, split64, direct64, direct128 };
inline constexpr int kFlashKinds = 4;
constexpr int64_t flash_tile(FlashKind kind) {
  return kind == FlashKind::split16 ? 16 : kind == FlashKind::direct128 ? 128 : 64;
}
constexpr bool is_split(FlashKind kind) {
  return kind == FlashKind::split16 || kind == FlashKind::split64;
}

/// One kernel launch: grid [items, 1, kv_heads]. A split launch is followed by the merge of its
/// rows; its partial results start at row 0 of the workspace.
struct FlashLaunch {
  FlashKind kind = FlashKind::split16;
  int64_t index = 0;       // of its chunk size
  int64_t first_item = 0;  // in the item arrays
  int64_t items = 0;       // with invalid ones that fill the grid
  int64_t first_merge = 0;
  int64_t merge_rows = 0;
};

/// Byte offsets in a plan's slab, fixed by the limits, so that recorded launches find the arrays of
/// every later step in the same place.
struct FlashSlab {
  size_t chunk_tokens = 0;   // [launches] i32
  size_t page_start = 0;     // [B + 1] i32: where a sequence's row of the block table starts
  size_t partial_start = 0;  // [B] i32: first partial row of a sequence
  size_t item_sequence = 0;  // [items] i32
  size_t item_tile = 0;      // [items] i32: query tile
  size_t item_chunk = 0;     // [items] i32: KV chunk
  size_t item_valid = 0;     // [items] bool
  size_t merge_row = 0;      // [merges] i32: output row
  size_t merge_start = 0;    // [merges + launches] i32: partial rows of each, and their end
  size_t hopper = 0;         // HopperSlab, where limits and shape allow it
  size_t bytes = 0;
  int64_t launches = 0, items = 0, merges = 0;  // room
};
FlashSlab flash_slab(const FlashLimits& limits, const FlashShape& shape);

/// Makes the plan of a step for one shape. The constructor alone allocates.
class FlashPlanner {
 public:
  FlashPlanner(const FlashShape& shape, const FlashLimits& limits);

  /// Sets the tokens of context from which prefills take the kernels of hopper_plan.h, where there
  /// is room for their plans; 0: never.
  void use_hopper(int64_t from) { hopper_from_ = from; }

  /// Fills `slab` (flash_slab().bytes) for a batch within the limits; throws std::logic_error for
  /// one that is not.
  void plan(const FlashBatch& batch, std::span<std::byte> slab);

  [[nodiscard]] const FlashShape& shape() const { return shape_; }
  [[nodiscard]] const FlashSlab& layout() const { return layout_; }
  [[nodiscard]] std::span<const FlashLaunch> launches() const { return launches_; }
  /// Thread blocks of the launch for Hopper; 0: there is none.
  [[nodiscard]] int64_t hopper_blocks() const { return hopper_blocks_; }
  /// Lists of the launch for Hopper in a slab, wherever the slab lies.
  [[nodiscard]] HopperWorks hopper_works(const std::byte* slab) const {
    return hopper_->works_in(slab + layout_.hopper);
  }
  /// True when launches() depends on nothing but the number of sequences: a step of one row per
  /// sequence. Recorded launches may then be repeated with a new slab.
  [[nodiscard]] bool recordable() const { return recordable_; }

 private:
  struct Sequence {
    int32_t index = 0;   // in the batch
    int32_t rows = 0;    // query rows
    int32_t first = 0;   // its first row in the batch
    int32_t length = 0;  // tokens in the cache
  };
  /// The slab's arrays.
  struct Arrays;

  void classify(const FlashBatch& batch);
  void add(const Sequence& sequence);
  /// Decides on Hopper's kernels for long prefills: all of them where they keep all multiprocessors
  /// busy, or none.
  void resolve_hopper();
  [[nodiscard]] FlashKind kind_of(int64_t rows) const;
  void move_prefills(int64_t few_rows);
  void choose_prefill(std::vector<Sequence>& prefill);
  void emit_split(FlashKind kind, const Arrays& to);
  void emit_round(FlashKind kind, std::span<const Sequence> of, int64_t chunk, const Arrays& to);
  void emit_direct(FlashKind kind, const Arrays& to);
  void emit_items(FlashLaunch& launch, std::span<const Sequence> of, int64_t chunk,
                  const Arrays& to);
  void pad_items(FlashLaunch& launch, int64_t items, const Arrays& to);
  [[nodiscard]] FlashLaunch next_launch(FlashKind kind) const;
  void finish(const FlashLaunch& launch);
  void gather_work(FlashKind kind, std::span<const Sequence> of);
  [[nodiscard]] SplitBudget budget() const;
  [[nodiscard]] int64_t grid_items(FlashKind kind, int64_t sequences) const;
  [[nodiscard]] int64_t tiles(const Sequence& of, FlashKind kind) const;
  [[nodiscard]] int64_t chunks(const Sequence& of, FlashKind kind, int64_t chunk) const;
  [[nodiscard]] int64_t item_tokens(const Sequence& of, FlashKind kind, int64_t tile, int64_t chunk,
                                    int64_t chunk_tokens) const;

  FlashShape shape_;
  FlashLimits limits_;
  FlashSlab layout_;
  int64_t partial_rows_ = 0;
  std::vector<Sequence> classes_[kFlashKinds];
  std::vector<Sequence> long_;  // of this batch, perhaps for Hopper
  std::optional<HopperPlanner> hopper_;
  std::vector<HopperPlanner::Sequence> on_hopper_;
  int64_t hopper_from_ = 0, hopper_blocks_ = 0;
  std::vector<SplitWork> work_;
  std::vector<FlashLaunch> launches_;
  int64_t used_items_ = 0, used_merges_ = 0;
  bool recordable_ = false;
  bool sees_ahead_ = false;  // of the batch
};

}  // namespace plimsoll::backend::cuda
