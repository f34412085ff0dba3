// How many kernels a recorded step has beside those that every layer has.
#pragma once

#include <cstdint>

#include "memory/device_overheads.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Of recurrent mixers, blocks that layers share, inputs by layer, several residuals and what
/// tensor-parallel ranks tell each other; an upper bound (memory::OverheadShape).
int64_t more_step_nodes(const model::ModelSpec& spec, const memory::NcclShape& nccl = {});

}  // namespace plimsoll::backend
