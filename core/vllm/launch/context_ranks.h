// Refusals of ranks that divide a request's tokens among them (--decode-context-parallel-size).
#pragma once

#include "vllm/engine_args.h"
#include "vllm/kv/kv_plan.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// Throws Error(usage), in vLLM's words and with the cure, where vLLM divides no tokens.
/// `prefixes`: the cache keeps prefixes.
void check_context_ranks(const ModelShape& shape, const KvPlan& kv, const EngineArgs& args,
                         bool prefixes);

}  // namespace plimsoll::vllm
