#include "engine/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "backend/counting.h"

namespace plimsoll::engine {

namespace {

template <typename T>
std::span<T> take_span(memory::Arena& arena, std::string_view name, int64_t count) {
  const auto size = static_cast<size_t>(count);
  return {arena.take_array<T>(name, size), size};
}

/// Takes "step scratch" from the arena as an arena of its own, of the same mode.
memory::Arena take_scratch(memory::Arena& arena, size_t bytes) {
  void* base = arena.take("step scratch", bytes);
  return arena.is_counting() ? memory::Arena::counting() : memory::Arena::placing(base, bytes);
}

}  // namespace

BatchArrays::BatchArrays(memory::Arena& arena, const StepLimits& limits, size_t kv_groups)
    : token_ids(take_span<int32_t>(arena, "token ids", limits.batched_tokens)),
      positions(take_span<int32_t>(arena, "positions", limits.batched_tokens)),
      row_sequence(take_span<int32_t>(arena, "row sequences", limits.batched_tokens)),
      query_start(take_span<int32_t>(arena, "query starts", limits.sequences + 1)),
      context_length(take_span<int32_t>(arena, "context lengths", limits.sequences)),
      long_rope(take_span<uint8_t>(arena, "long rope", limits.sequences)),
      logits_rows(take_span<int32_t>(arena, "logits rows", limits.batched_tokens)),
      table_stride(limits.table_stride) {
  for (size_t g = 0; g < kv_groups; ++g) {
    block_tables.push_back(
        take_span<int32_t>(arena, "block tables", limits.sequences * limits.table_stride));
  }
  const_tables_.assign(block_tables.begin(), block_tables.end());
}

backend::BatchMeta BatchArrays::meta(int64_t tokens, int64_t sequences, int64_t rows) const {
  const auto t = static_cast<size_t>(tokens);
  const auto b = static_cast<size_t>(sequences);
  return {.token_ids = token_ids.first(t),
          .positions = positions.first(t),
          .row_sequence = row_sequence.first(t),
          .query_start = query_start.first(b + 1),
          .context_length = context_length.first(b),
          .long_rope = long_rope.first(b),
          .logits_rows = logits_rows.first(static_cast<size_t>(rows)),
          .block_tables = const_tables_,
          .table_stride = table_stride};
}

Launch::Launch(const model::ModelSpec& spec, const EngineLayout& layout, backend::Backend& backend,
               memory::Arena& arena)
    : model(spec, layout.dtype, backend, arena, layout.kv, layout.num_blocks),
      batch(arena, layout.limits, layout.kv.groups.size()),
      sampling_values(
          take_span<float>(arena, "sampling values", layout.sampling_threads * spec.vocab_size)),
      sampling_ids(
          take_span<int32_t>(arena, "sampling ids", layout.sampling_threads * spec.vocab_size)),
      scratch(take_scratch(arena, layout.scratch_bytes)) {
  backend.use_scratch(scratch);
}

size_t step_scratch_bytes(const model::ModelSpec& spec, DType dtype, const KvLayout& kv,
                          const StepLimits& limits, const backend::Footprint& footprint) {
  memory::Arena arena = memory::Arena::counting();
  memory::Arena scratch = memory::Arena::counting();
  backend::CountingBackend backend(footprint);
  backend.use_scratch(scratch);
  Model model(spec, dtype, backend, arena, kv, 1);
  const BatchArrays batch(arena, limits, kv.groups.size());
  const memory::Scope scope(scratch);
  const backend::View hidden =
      model.forward(batch.meta(limits.batched_tokens, limits.sequences, limits.batched_tokens));
  model.logits(hidden.slice_rows(0, limits.logits_rows));
  return scratch.peak();
}

EnginePlan plan_layout(const model::ModelSpec& spec, const EngineLayout& layout,
                       const backend::Footprint& footprint) {
  memory::Arena arena = memory::Arena::counting();
  backend::CountingBackend backend(footprint);
  const Launch launch(spec, layout, backend, arena);
  return {.regions = arena.regions(),
          .total_bytes = arena.peak(),
          .max_model_len = layout.max_model_len,
          .max_num_seqs = layout.limits.sequences,
          .max_num_batched_tokens = layout.limits.batched_tokens,
          .num_kv_blocks = layout.num_blocks,
          .kv_block_bytes = layout.kv.block_bytes};
}

void check_regions(const EnginePlan& plan, const memory::Arena& placed) {
  const auto [planned, found] = std::mismatch(plan.regions.begin(), plan.regions.end(),
                                              placed.regions().begin(), placed.regions().end());
  if (planned == plan.regions.end() && found == placed.regions().end()) return;
  throw std::logic_error(fmt::format("the launch differs from its plan at region {} ('{}')",
                                     planned - plan.regions.begin(),
                                     planned == plan.regions.end() ? found->name : planned->name));
}

EnginePlan plan_engine(const model::ModelSpec& spec, const EngineOptions& options,
                       const backend::Footprint& footprint) {
  return plan_layout(spec, resolve_layout(spec, options, footprint), footprint);
}

}  // namespace plimsoll::engine
