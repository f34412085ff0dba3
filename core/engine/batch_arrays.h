// The memory behind BatchMeta: a slab of arrays, of which a device has a copy.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "engine/forward/model.h"
#include "memory/arena.h"

namespace plimsoll::engine {

/// `count` elements of an arena, as a region of this name.
template <typename T>
std::span<T> take_span(memory::Arena& arena, std::string_view name, int64_t count) {
  const auto size = static_cast<size_t>(count);
  return {arena.take_array<T>(name, size), size};
}

/// Changes to logits that a step has room for, per sequence on average: penalties need one for each
/// different token of prompt and answer. One sequence may have as many as the vocabulary has
/// tokens. The host changes rows that find no room.
inline constexpr int64_t kChangesPerSequence = 1024;

/// Properties of a launch that decide which arrays it has, beside the limits of a step.
struct BatchShape {
  StepLimits limits;
  int64_t vocab_size = 0;
  size_t kv_groups = 0;
  bool images = false;      // prompts may have some
  bool turns = false;       // positions are of several kinds
  bool sees_ahead = false;  // an image's tokens see each other both ways
  bool draws = false;       // tokens are drawn on the device
  size_t plan_bytes = 0;    // Footprint::step_plan_bytes
  bool states = false;      // sequences have states
  int64_t steps = 1;        // under way at once: in a pipeline
};

constexpr int64_t mask_words(int64_t vocab_size) {
  return (vocab_size + 31) / 32;
}

/// The arrays of one step, sized for the largest; the host writes them.
struct BatchSlab {
  BatchSlab(memory::Arena& arena, const BatchShape& shape);

  std::span<int32_t> token_ids;       // [T]
  std::span<int32_t> positions;       // [T]
  std::span<int32_t> row_sequence;    // [T]
  std::span<int32_t> query_start;     // [B + 1]
  std::span<int32_t> context_length;  // [B]
  std::span<uint8_t> long_rope;       // [B]
  std::span<int32_t> state_slots;     // [B]; empty where there are none
  std::span<int32_t> logits_rows;     // [T]
  std::span<int32_t> rope_positions;  // [3 T] or empty, as the next three
  std::span<int32_t> seen_end;        // [T]
  std::span<int32_t> embedded_rows;   // [T]
  std::span<int32_t> embedding_rows;  // [T]
  std::span<double> temperature;      // [B], as all of drawing; empty where the host draws
  std::span<int32_t> top_k;
  std::span<double> top_p;
  std::span<double> min_p;
  std::span<double> uniform;
  std::span<float> repetition;
  std::span<float> frequency;
  std::span<float> presence;
  std::span<uint8_t> adds_own;
  std::span<int32_t> sections;                   // [4 B + 1]
  std::span<backend::TokenChange> changes;       // kChangesPerSequence B + vocabulary
  std::span<int32_t> mask_of;                    // [B]
  std::span<int32_t> masks;                      // [B, mask_words]
  std::vector<std::span<int32_t>> block_tables;  // per KV group: [B, table_stride]
  std::span<std::byte> plan;

 private:
  friend class BatchArrays;
  std::vector<std::span<const int32_t>> const_tables_;
};

/// Used length of each array in a step.
struct StepExtent {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t logits_rows = 0;
  int64_t drawn = 0;        // of the logits rows, the first ones
  int64_t changes = 0;      // of the logits
  int64_t masks = 0;        // of grammars
  int64_t table_width = 0;  // of the block tables' rows
  int64_t embedded = 0;     // rows
  /// rope_positions are filled, as in all steps of a model with kinds of positions.
  bool turns = false;
  bool sees_ahead = false;  // seen_end is filled
  int64_t padding = 0;      // the last rows and sequences

  /// The extent of a step that another rank is to have too (BatchArrays::copy).
  static StepExtent of(const backend::BatchMeta& step);
};

/// The host's slabs, one for each step that may be under way, and their copies' place on the
/// device. Where memory is shared, each array is a region by itself.
class BatchArrays {
 public:
  BatchArrays(memory::Arena& device, memory::Arena& host, const BatchShape& shape,
              const backend::Footprint& footprint);

  /// Words of a mask of the vocabulary.
  [[nodiscard]] int64_t mask_words() const { return mask_words_; }
  /// True when the device draws tokens.
  [[nodiscard]] bool draws() const { return !slabs_.front().temperature.empty(); }
  [[nodiscard]] size_t slabs() const { return slabs_.size(); }
  [[nodiscard]] BatchSlab& slab(size_t slot = 0) { return slabs_[slot]; }
  /// The leading parts of the arrays that a step of this extent uses. The result points into this
  /// object.
  [[nodiscard]] backend::BatchMeta meta(size_t slot, const StepExtent& extent) const;
  /// Copies the step of another rank to this rank's arrays of the same slot. The copy has no
  /// drawing on devices (BatchMeta::drawing).
  backend::BatchMeta copy(const backend::BatchMeta& step);

 private:
  int64_t table_stride_;
  int64_t mask_words_;
  std::vector<BatchSlab> slabs_;
  std::vector<std::byte*> host_bases_;          // of the slabs
  std::vector<std::span<int32_t>> host_drawn_;  // beside the slabs: [B]
  std::byte* device_base_ = nullptr;            // null: memory is shared
  std::span<int32_t> device_drawn_;             // [B]
};

}  // namespace plimsoll::engine
