// Experts that a checkpoint stores as one tensor of all of them.
#pragma once

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::checkpoint {

/// Reads experts from `experts.gate_up_proj` (Mixtral: `w13`) [experts, 2 * intermediate, hidden]
/// and `experts.down_proj` (`w2`) [experts, hidden, intermediate] where the checkpoint has these in
/// place of a tensor for each expert, or the other way round (transformers 5 saves Qwen3.5's so),
/// and splits the spec's stacked tensors. Stacks of codes become a quantized matrix for each
/// expert, with the scales that stand beside them (`gate_up_proj_scale_inv` ...).
void resolve_fused_experts(Checkpoint& checkpoint, model::ModelSpec& spec);

}  // namespace plimsoll::checkpoint
