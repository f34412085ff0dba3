// The layout of a launch: limits resolved, then the same constructors run over a counting arena
// (plan) and over real memory (launch).
//
//   EngineLayout layout = resolve_layout(spec, options, backend.footprint());
//   EnginePlan plan = plan_layout(spec, layout, backend.footprint());
//   memory::HostMemory memory(plan.total_bytes);
//   memory::Arena arena = memory::Arena::placing(memory.data(), memory.size());
//   Launch launch(spec, layout, backend, arena);
//   check_regions(plan, arena);
//   launch.model.load(reader);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "memory/arena.h"
#include "model/model_spec.h"

namespace plimsoll::engine {

/// All that is decided before memory is taken.
struct EngineLayout {
  DType dtype = DType::bf16;
  StepLimits limits;
  KvLayout kv;
  int64_t max_model_len = 0;
  int64_t num_blocks = 0;
  int64_t sampling_threads = 1;
  size_t scratch_bytes = 0;
};

/// Resolves the limits of a launch. Throws Error(usage) for limits that contradict each other and
/// Error(does_not_fit) when one sequence of max_model_len does not fit the KV pool, saying what
/// would.
EngineLayout resolve_layout(const model::ModelSpec& spec, const EngineOptions& options,
                            const backend::Footprint& footprint);

/// The arrays behind BatchMeta, sized for the largest step.
struct BatchArrays {
  BatchArrays(memory::Arena& arena, const StepLimits& limits, size_t kv_groups);

  /// The leading parts that a step of these sizes uses. The result points into this object.
  [[nodiscard]] backend::BatchMeta meta(int64_t tokens, int64_t sequences,
                                        int64_t logits_rows) const;

  std::span<int32_t> token_ids;       // [T]
  std::span<int32_t> positions;       // [T]
  std::span<int32_t> row_sequence;    // [T]
  std::span<int32_t> query_start;     // [B + 1]
  std::span<int32_t> context_length;  // [B]
  std::span<uint8_t> long_rope;       // [B]
  std::span<int32_t> logits_rows;     // [T]
  int64_t table_stride = 0;
  std::vector<std::span<int32_t>> block_tables;  // per KV group: [B, table_stride]

 private:
  std::vector<std::span<const int32_t>> const_tables_;
};

/// What a launch places in its arena, in order: weights, KV blocks, batch metadata, sampling, step
/// scratch. `layout`, `spec` and `backend` must outlive it; the backend takes its scratch from
/// here.
struct Launch {
  Launch(const model::ModelSpec& spec, const EngineLayout& layout, backend::Backend& backend,
         memory::Arena& arena);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  Model model;
  BatchArrays batch;
  std::span<float> sampling_values;  // [threads, vocab] scores of the rows being sampled
  std::span<int32_t> sampling_ids;   // [threads, vocab] token ids beside them
  memory::Arena scratch;
};

/// Regions and sizes of a launch of this layout, by a counting pass over Launch's constructor.
EnginePlan plan_layout(const model::ModelSpec& spec, const EngineLayout& layout,
                       const backend::Footprint& footprint);

/// The plan is the launch: throws std::logic_error naming the first region that differs.
void check_regions(const EnginePlan& plan, const memory::Arena& placed);

}  // namespace plimsoll::engine
