// How many kernels a recorded step has beside those that every layer has.
#pragma once

#include <cstdint>

#include "model/model_spec.h"

namespace plimsoll::backend {

/// Of recurrent mixers, blocks that layers share, inputs by layer and several residuals; an upper
/// bound (memory::OverheadShape).
int64_t more_step_nodes(const model::ModelSpec& spec);

}  // namespace plimsoll::backend
