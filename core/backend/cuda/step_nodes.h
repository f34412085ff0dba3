// How many kernels a recorded step has beside those that every layer has, and what else a launch
// takes of a card.
#pragma once

#include <cstdint>

#include "backend/cuda/footprint.h"
#include "memory/device_overheads.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Of recurrent mixers, blocks that layers share, inputs by layer, several residuals, what
/// tensor-parallel ranks tell each other, and slices of sums (`deterministic`); an upper bound
/// (memory::OverheadShape).
int64_t more_step_nodes(const model::ModelSpec& spec, bool deterministic,
                        const memory::NcclShape& nccl = {});

/// What a launch of a model, or of a rank's share of it, takes of a card beside its arena.
memory::OverheadShape overhead_shape(const model::ModelSpec& spec, const CardFigures& card,
                                     int64_t graphs, const memory::NcclShape& nccl = {});

}  // namespace plimsoll::backend
