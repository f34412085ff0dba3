// Buffers whose size goes by requests times their length: block tables, page indices of kernels,
// gathered context. vLLM makes most of them with the KV cache, after the profile, so that they lie
// outside the budget.
#pragma once

#include <cstdint>
#include <vector>

#include "vllm/engine_args.h"
#include "vllm/figures.h"
#include "vllm/kv/kv_plan.h"
#include "vllm/launch/attention_room.h"

namespace plimsoll::vllm {

/// When a buffer is made: before the profile, which may lie inside the budget, or with the cache.
enum class Made : uint8_t { before_profile, with_cache };

/// What buffers go by.
struct TableTerms {
  const EngineArgs& args;
  const EngineLimits& limits;
  int64_t element = 2;        // bytes of the model's dtype
  int64_t max_model_len = 0;  // of the launch: with --max-model-len auto it is lowered meanwhile
  bool flashinfer = false;    // attention runs in FlashInfer's kernels
  bool last = true;           // the stage of a pipeline that drafts
  TensorSum late = {};        // request of the shared workspace behind the profile
  Amount workspace = {};      // bytes that it has by then
};

/// The buffers of at least 8 MiB that are made then.
std::vector<PlanPart> table_parts(Made made, const TableTerms& terms, const ModelShape& shape,
                                  const KvPlan& kv);

}  // namespace plimsoll::vllm
