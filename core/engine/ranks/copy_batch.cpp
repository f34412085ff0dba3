// A step's arrays from one rank to the next.
#include <algorithm>

#include "engine/batch_arrays.h"

namespace plimsoll::engine {
namespace {

template <typename T>
void copy_array(std::span<const T> from, std::span<T> to) {
  std::ranges::copy(from, to.begin());
}

/// Rows of `stride` entries, of which `width` are in use.
void copy_table(std::span<const int32_t> from, std::span<int32_t> to,
                const backend::BatchMeta& step) {
  const auto stride = static_cast<size_t>(step.table_stride);
  for (size_t row = 0; row < step.context_length.size(); ++row) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(row * stride), step.table_width,
                to.begin() + static_cast<std::ptrdiff_t>(row * stride));
  }
}

}  // namespace

StepExtent StepExtent::of(const backend::BatchMeta& step) {
  return {.tokens = std::ssize(step.token_ids),
          .sequences = std::ssize(step.context_length),
          .logits_rows = std::ssize(step.logits_rows),
          .drawn = std::ssize(step.drawing.temperature),
          .table_width = step.table_width,
          .embedded = std::ssize(step.embedded_rows),
          .turns = !step.rope_positions.empty(),
          .sees_ahead = !step.seen_end.empty(),
          .padding = step.padding};
}

backend::BatchMeta BatchArrays::copy(const backend::BatchMeta& step) {
  const StepExtent extent = StepExtent::of(step);
  const auto slot = static_cast<size_t>(step.slot);
  BatchSlab& slab = slabs_[slot];
  copy_array(step.token_ids, slab.token_ids);
  copy_array(step.positions, slab.positions);
  copy_array(step.row_sequence, slab.row_sequence);
  copy_array(step.query_start, slab.query_start);
  copy_array(step.context_length, slab.context_length);
  copy_array(step.long_rope, slab.long_rope);
  copy_array(step.state_slots, slab.state_slots);
  copy_array(step.logits_rows, slab.logits_rows);
  copy_array(step.rope_positions, slab.rope_positions);
  copy_array(step.seen_end, slab.seen_end);
  copy_array(step.embedded_rows, slab.embedded_rows);
  copy_array(step.embedding_rows, slab.embedding_rows);
  for (size_t group = 0; group < slab.block_tables.size(); ++group) {
    copy_table(step.block_tables[group], slab.block_tables[group], step);
  }
  return meta(slot, extent);
}

}  // namespace plimsoll::engine
