#include "engine/batch_arrays.h"

#include <algorithm>

namespace plimsoll::engine {

namespace {

size_t slab_bytes(const BatchShape& shape) {
  memory::Arena arena = memory::Arena::counting();
  const BatchSlab slab(arena, shape);
  return arena.peak();
}

}  // namespace

BatchSlab::BatchSlab(memory::Arena& arena, const BatchShape& shape)
    : token_ids(take_span<int32_t>(arena, "token ids", shape.limits.batched_tokens)),
      positions(take_span<int32_t>(arena, "positions", shape.limits.batched_tokens)),
      row_sequence(take_span<int32_t>(arena, "row sequences", shape.limits.batched_tokens)),
      query_start(take_span<int32_t>(arena, "query starts", shape.limits.sequences + 1)),
      context_length(take_span<int32_t>(arena, "context lengths", shape.limits.sequences)),
      long_rope(take_span<uint8_t>(arena, "long rope", shape.limits.sequences)),
      logits_rows(take_span<int32_t>(arena, "logits rows", shape.limits.batched_tokens)) {
  const int64_t tokens = shape.limits.batched_tokens;
  if (shape.turns) rope_positions = take_span<int32_t>(arena, "positions by kind", 3 * tokens);
  if (shape.sees_ahead) seen_end = take_span<int32_t>(arena, "seen ends", tokens);
  if (shape.images) {
    embedded_rows = take_span<int32_t>(arena, "embedded rows", tokens);
    embedding_rows = take_span<int32_t>(arena, "embedding rows", tokens);
  }
  const int64_t sequences = shape.limits.sequences;
  if (shape.states) state_slots = take_span<int32_t>(arena, "state slots", sequences);
  if (shape.draws) {
    temperature = take_span<double>(arena, "temperature", sequences);
    top_k = take_span<int32_t>(arena, "top k", sequences);
    top_p = take_span<double>(arena, "top p", sequences);
    min_p = take_span<double>(arena, "min p", sequences);
    uniform = take_span<double>(arena, "random numbers", sequences);
    repetition = take_span<float>(arena, "repetition penalties", sequences);
    frequency = take_span<float>(arena, "frequency penalties", sequences);
    presence = take_span<float>(arena, "presence penalties", sequences);
    adds_own = take_span<uint8_t>(arena, "own tokens", sequences);
    sections = take_span<int32_t>(arena, "sections",
                                  static_cast<int64_t>(backend::kChangeSections) * sequences + 1);
    changes = take_span<backend::TokenChange>(arena, "changes",
                                              kChangesPerSequence * sequences + shape.vocab_size);
    mask_of = take_span<int32_t>(arena, "mask numbers", sequences);
    masks = take_span<int32_t>(arena, "masks", sequences * mask_words(shape.vocab_size));
  }
  for (size_t g = 0; g < shape.kv_groups; ++g) {
    block_tables.push_back(
        take_span<int32_t>(arena, "block tables", sequences * shape.limits.table_stride));
  }
  if (shape.plan_bytes > 0) {
    plan = take_span<std::byte>(arena, "step plan", static_cast<int64_t>(shape.plan_bytes));
  }
  const_tables_.assign(block_tables.begin(), block_tables.end());
}

BatchArrays::BatchArrays(memory::Arena& device, memory::Arena& host, const BatchShape& shape,
                         const backend::Footprint& footprint)
    : table_stride_(shape.limits.table_stride), mask_words_(engine::mask_words(shape.vocab_size)) {
  if (footprint.shares_memory()) {
    for (int64_t slot = 0; slot < shape.steps; ++slot) {
      slabs_.emplace_back(device, shape);
      host_bases_.push_back(reinterpret_cast<std::byte*>(slabs_.back().token_ids.data()));
      host_drawn_.emplace_back();
    }
    return;
  }
  const size_t bytes = slab_bytes(shape);
  device_base_ = device.take_array<std::byte>("batch metadata", bytes);
  device_drawn_ = take_span<int32_t>(device, "drawn tokens", shape.limits.sequences);
  for (int64_t slot = 0; slot < footprint.slabs(shape.steps); ++slot) {
    host_bases_.push_back(host.take_array<std::byte>("batch metadata", bytes));
    memory::Arena inside = host.is_counting() ? memory::Arena::counting()
                                              : memory::Arena::placing(host_bases_.back(), bytes);
    slabs_.emplace_back(inside, shape);
    host_drawn_.push_back(take_span<int32_t>(host, "drawn tokens", shape.limits.sequences));
  }
}

backend::BatchMeta BatchArrays::meta(size_t slot, const StepExtent& extent) const {
  const BatchSlab& slab = slabs_[slot];
  const auto t = static_cast<size_t>(extent.tokens);
  const auto b = static_cast<size_t>(extent.sequences);
  const auto d = static_cast<size_t>(extent.drawn);
  backend::BatchMeta meta{.token_ids = slab.token_ids.first(t),
                          .positions = slab.positions.first(t),
                          .row_sequence = slab.row_sequence.first(t),
                          .query_start = slab.query_start.first(b + 1),
                          .context_length = slab.context_length.first(b),
                          .long_rope = slab.long_rope.first(b),
                          .state_slots = slab.state_slots.first(slab.state_slots.empty() ? 0 : b),
                          .logits_rows = slab.logits_rows.first(extent.logits_rows),
                          .block_tables = slab.const_tables_,
                          .table_stride = table_stride_,
                          .table_width = extent.table_width,
                          .padding = extent.padding};
  if (extent.turns) meta.rope_positions = slab.rope_positions.first(3 * t);
  if (extent.sees_ahead) meta.seen_end = slab.seen_end.first(t);
  meta.embedded_rows = slab.embedded_rows.first(extent.embedded);
  meta.embedding_rows = slab.embedding_rows.first(extent.embedded);
  meta.slot = static_cast<int32_t>(slot);
  meta.host_base = host_bases_[slot];
  meta.device_base = device_base_ == nullptr ? host_bases_[slot] : device_base_;
  meta.plan = slab.plan;
  meta.drawn_on_device = device_drawn_.data();
  if (d == 0) return meta;
  meta.drawing = {.temperature = slab.temperature.first(d),
                  .top_k = slab.top_k.first(d),
                  .top_p = slab.top_p.first(d),
                  .min_p = slab.min_p.first(d),
                  .uniform = slab.uniform.first(d),
                  .repetition = slab.repetition.first(d),
                  .frequency = slab.frequency.first(d),
                  .presence = slab.presence.first(d),
                  .adds_own = slab.adds_own.first(d),
                  .sections = slab.sections.first(backend::kChangeSections * d + 1),
                  // A recorded step has the address, whatever it was recorded with.
                  .changes = slab.changes.first(std::max<int64_t>(extent.changes, 1)),
                  .mask_of = slab.mask_of.first(d),
                  .masks = slab.masks.first(extent.masks * mask_words_),
                  .mask_words = mask_words_};
  meta.drawn = host_drawn_[slot].first(d);
  return meta;
}

}  // namespace plimsoll::engine
