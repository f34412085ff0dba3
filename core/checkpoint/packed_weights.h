// Quantised weights in a checkpoint.
#pragma once

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "quantization/assign.h"

namespace plimsoll::checkpoint {

/// Finds tensors of a checkpoint, in any spelling that the spec knows; both must outlive it.
quantization::FindStored find_stored(const Checkpoint& checkpoint, const model::ModelSpec& spec);

/// Decides for each weight how it is kept, by config.json and by what the checkpoint holds. Throws
/// Error(checkpoint_unusable).
void settle_packings(const Json& config, const Checkpoint& checkpoint,
                     quantization::Activations activations, model::ModelSpec& spec);

/// Opens a block of a part of a quantised weight.
std::unique_ptr<model::PackedRows> open_part(const model::WeightSpec& weight,
                                             const model::Part& part, const Block& block,
                                             const quantization::FindStored& find);
/// The block that is all of it.
Block whole_part(const model::WeightSpec& weight, const model::Part& part);

}  // namespace plimsoll::checkpoint
