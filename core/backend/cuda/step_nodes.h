// Kernels of a recorded step beside those that every layer has, and a launch's overheads on a card.
#pragma once

#include <cstdint>

#include "backend/cuda/footprint.h"
#include "memory/device_overheads.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Upper bound of these kernels (memory::OverheadShape): of recurrent mixers, blocks that layers
/// share, inputs by layer, several residuals, exchanges between tensor-parallel ranks, and slices
/// of sums (`deterministic`).
int64_t more_step_nodes(const model::ModelSpec& spec, bool deterministic,
                        const memory::NcclShape& nccl = {});

/// Shape of the memory that a launch of a model, or of a rank's share of it, takes of a card beside
/// its arena.
memory::OverheadShape overhead_shape(const model::ModelSpec& spec, const CardFigures& card,
                                     int64_t graphs, const memory::NcclShape& nccl = {});

}  // namespace plimsoll::backend
