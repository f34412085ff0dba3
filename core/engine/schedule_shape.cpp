#include "engine/schedule_shape.h"

#include "engine/forward/model.h"

namespace plimsoll::engine {

ScheduleShape shape_of_schedule(const model::ModelSpec& spec, const EngineOptions& options,
                                const EnginePlan& plan, int64_t stages,
                                const backend::Footprint& footprint) {
  ScheduleShape shape;
  shape.cache = {plan.num_kv_blocks, options.block_size, {}};
  const KvLayout kv = make_kv_layout(spec, options.block_size, plan.kv_dtype, footprint);
  for (const KvGroup& group : kv.groups) shape.cache.windows.push_back(group.window);
  shape.cache.prefix_caching = options.prefix_caching && !spec.is_recurrent();
  if (spec.is_recurrent()) shape.cache.state_slots = plan.max_num_seqs;
  shape.limits = {plan.max_num_seqs, plan.max_num_batched_tokens, options.admission, stages,
                  options.head_start};
  shape.replicas = options.replicas;
  shape.runs_ahead = footprint.ahead() > 0 && stages == 1;
  return shape;
}

}  // namespace plimsoll::engine
