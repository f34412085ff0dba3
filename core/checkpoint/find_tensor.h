// Looks up a tensor by its name or another spelling of it.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::checkpoint {

/// The tensor of this name; null where the checkpoint has it under no spelling that the spec knows.
const TensorEntry* find_tensor(const Checkpoint& checkpoint, const model::ModelSpec& spec,
                               const std::string& name);

}  // namespace plimsoll::checkpoint
