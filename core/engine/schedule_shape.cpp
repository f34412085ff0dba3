#include "engine/schedule_shape.h"

#include "engine/speculation/speculation.h"

namespace plimsoll::engine {

bool shares_prefixes(const model::ModelSpec& spec, const EngineOptions& options) {
  return options.prefix_caching && !spec.is_recurrent();
}

KvCacheOptions cache_options(const KvLayout& kv, int64_t blocks, bool prefix_caching,
                             int64_t state_slots) {
  KvCacheOptions options{blocks, kv.block_size, {}, prefix_caching, state_slots};
  for (const KvGroup& group : kv.groups) options.windows.push_back(group.window);
  return options;
}

ScheduleShape shape_of_schedule(const model::ModelSpec& spec, const EngineOptions& options,
                                const EnginePlan& plan, int64_t stages,
                                const backend::Footprint& footprint) {
  ScheduleShape shape;
  shape.cache = cache_options(make_kv_layout(spec, options.block_size, plan.kv_dtype, footprint),
                              plan.num_kv_blocks, shares_prefixes(spec, options),
                              spec.is_recurrent() ? plan.max_num_seqs : 0);
  shape.limits = {plan.max_num_seqs, plan.max_num_batched_tokens, options.admission, stages,
                  options.head_start};
  shape.replicas = options.replicas;
  shape.runs_ahead = footprint.ahead() > 0 && stages == 1;
  shape.step_tokens = footprint.shares_memory() ? kWeightRows : kCardWeightRows;
  return shape;
}

}  // namespace plimsoll::engine
