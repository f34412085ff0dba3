// Quantized weights in a checkpoint.
#pragma once

#include "checkpoint/checkpoint.h"
#include "quantization/assign.h"

namespace plimsoll::checkpoint {

/// Finds tensors of a checkpoint, in any spelling that the spec knows; both must outlive it.
quantization::FindStored find_stored(const Checkpoint& checkpoint, const model::ModelSpec& spec);

/// Opens a block of a part of a quantized weight.
std::unique_ptr<model::PackedRows> open_part(const model::WeightSpec& weight,
                                             const model::Part& part, const Block& block,
                                             const quantization::FindStored& find);
/// The block that covers a whole part.
Block whole_part(const model::WeightSpec& weight, const model::Part& part);

}  // namespace plimsoll::checkpoint
