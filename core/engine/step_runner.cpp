#include "engine/step_runner.h"

#include <algorithm>

namespace plimsoll::engine {

namespace {

/// Rows of the warm-up step with an image.
constexpr int64_t kImageRows = 32;

}  // namespace

void StepRunner::run(const Step& step, const Reader& read, const FillMasks& fill_masks) {
  backend_.start_step(step.meta);
  const memory::Scope scope(launch_.scratch);
  backend::View hidden;
  const auto ops = [&] {
    hidden = launch_.model.forward(step.meta);
    if (!launch_.model.has_head()) return;
    draw(step, hidden, fill_masks);
    launch_.model.share_drawn(step.meta);
  };
  if (step.recorded_size == 0) {
    backend_.run_step(0, ops);
  } else {
    // Scratch of the ops ends with them, since nothing is read from it afterwards; the function may
    // be called more than once.
    backend_.run_step(step.recorded_size, [&] {
      const memory::Scope inside(launch_.scratch);
      ops();
    });
  }
  backend_.finish_step(step.meta);
  if (launch_.model.has_head()) read_rows(step, hidden, read);
}

void StepRunner::draw(const Step& step, backend::View hidden, const FillMasks& fill_masks) {
  const auto drawn = static_cast<int64_t>(step.meta.drawing.temperature.size());
  for (int64_t first = 0; first < drawn; first += layout_.limits.logits_rows) {
    const int64_t count = std::min(layout_.limits.logits_rows, drawn - first);
    const memory::Scope scope(launch_.scratch);
    const backend::View logits = launch_.model.logits(hidden.slice_rows(first, count));
    if (!launch_.model.leads()) continue;
    if (first == 0 && !step.masked.empty()) {
      fill_masks();
      backend_.send_masks(step.meta);
    }
    backend_.run(ops::Draw{step.meta, logits, first});
  }
}

void StepRunner::read_rows(const Step& step, backend::View hidden, const Reader& read) {
  const auto rows = std::ssize(step.read);
  const auto behind = std::ssize(step.meta.drawing.temperature);  // no padding: none is recorded
  const int64_t most = most_read();
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = std::min(most, rows - first);
    const memory::Scope scope(launch_.scratch);
    const backend::View logits = launch_.model.logits(hidden.slice_rows(behind + first, count));
    if (!launch_.model.leads()) {
      backend_.synchronize();  // what fails here is noticed while the first one waits
      continue;
    }
    read({first, count, backend_.host_logits(logits, launch_.logits_staging), logits.stride});
  }
}

int64_t StepRunner::most_read() const {
  return layout_.staging_rows > 0 ? layout_.staging_rows : layout_.limits.logits_rows;
}

// Sequences as long as they may be, over whatever blocks: the cache is empty yet.
void StepRunner::fill(Step& step, int64_t tokens) {
  BatchSlab& slab = launch_.batch.slab();
  StepExtent extent;
  slab.query_start[0] = 0;
  while (extent.tokens < tokens) {
    const auto sequence = static_cast<size_t>(extent.sequences++);
    const int64_t count = std::min(layout_.max_model_len, tokens - extent.tokens);
    for (int64_t position = 0; position < count; ++position, ++extent.tokens) {
      const auto row = static_cast<size_t>(extent.tokens);
      slab.token_ids[row] = 0;
      slab.positions[row] = static_cast<int32_t>(position);
      slab.row_sequence[row] = static_cast<int32_t>(sequence);
    }
    slab.query_start[sequence + 1] = static_cast<int32_t>(extent.tokens);
    slab.context_length[sequence] = static_cast<int32_t>(count);
    slab.long_rope[sequence] = 0;
    if (!slab.state_slots.empty()) slab.state_slots[sequence] = static_cast<int32_t>(sequence);
    slab.logits_rows[sequence] = static_cast<int32_t>(extent.tokens - 1);
    const auto stride = static_cast<size_t>(layout_.limits.table_stride);
    for (const std::span<int32_t> table : slab.block_tables) {
      for (size_t i = 0; i < stride; ++i) {
        table[sequence * stride + i] =
            static_cast<int32_t>(static_cast<int64_t>(i) % layout_.num_blocks);
      }
    }
  }
  extent.logits_rows = extent.sequences;
  if (!backend_.footprint().shares_memory()) {
    // The trial has as many rows of logits as the host reads at a time: with one row for each of a
    // few sequences the device would not meet the head's product of many rows.
    extent.logits_rows = std::max(extent.sequences, std::min(most_read(), extent.tokens));
    std::fill(slab.logits_rows.begin() + extent.sequences,
              slab.logits_rows.begin() + extent.logits_rows, 0);
  }
  extent.table_width = layout_.limits.table_stride;
  step.read.resize(extent.logits_rows);
  if (!slab.rope_positions.empty()) {
    extent.turns = true;
    std::ranges::fill(slab.rope_positions, 0);
  }
  step.meta = launch_.batch.meta(0, extent);
}

// Rows that take embeddings and see ahead need kernels that no other step does.
void StepRunner::fill_with_image(Step& step) {
  fill(step, std::min(kImageRows, layout_.limits.batched_tokens));
  BatchSlab& slab = launch_.batch.slab();
  StepExtent extent = StepExtent::of(step.meta);
  extent.embedded = 1;
  slab.embedded_rows[0] = slab.embedding_rows[0] = 0;
  if (!slab.seen_end.empty()) {
    extent.sees_ahead = true;
    std::ranges::transform(step.meta.positions, slab.seen_end.begin(),
                           [](int32_t position) { return position + 1; });
  }
  step.meta = launch_.batch.meta(0, extent);
  step.meta.embeddings = launch_.embeddings;
}

void StepRunner::encode_largest() {
  for (const image::Layout& image : layout_.images->extremes) {
    launch_.tower->encode({image, {}}, launch_.embeddings.slice_rows(0, image.tokens));
  }
}

void StepRunner::warm_up(BatchBuilder& builder) {
  const auto once = [&](const Step& step) {
    run(step, [](const LogitsSlice&) {});
    backend_.await_step(step.meta);
  };
  Step step;
  if (launch_.tower) {
    encode_largest();
    fill_with_image(step);
    once(step);
  }
  fill(step, layout_.limits.batched_tokens);
  once(step);
  if (backend_.footprint().shares_memory()) return;
  builder.build_padding(layout_.limits.sequences, 0, step);
  once(step);
  // Kernels differ by the number of rows; sizes that are not recorded run here for the first time.
  for (int64_t size = 1; size < layout_.limits.sequences; size *= 2) {
    if (std::ranges::binary_search(layout_.recorded_sizes, size)) continue;
    builder.build_padding(size, 0, step);
    once(step);
  }
  // The largest size is recorded first: smaller ones need no more memory then.
  for (size_t i = layout_.recorded_sizes.size(); i-- > 0;) {
    step.recorded_size = layout_.recorded_sizes[i];
    builder.build_padding(step.recorded_size, 0, step);
    once(step);
  }
}

}  // namespace plimsoll::engine
