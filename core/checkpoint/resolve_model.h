// Parts of a model's spec that the config leaves open, and the checkpoint's tensors and the launch
// decide.
#pragma once

#include <string>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "quantization/assign.h"

namespace plimsoll::checkpoint {

/// How a launch keeps weights in memory.
struct Keeping {
  quantization::Activations activations = quantization::Activations::rounded;
  std::string online = {};  // method that quantizes plain weights while they are read, or ""
};

/// Resolves by the tensors: the dtype of a config that states none, whether experts are stored as
/// one tensor, whether the head is the token table. Throws Error(checkpoint_unusable).
void resolve_stored(Checkpoint& checkpoint, model::ModelSpec& spec);

/// Resolves by the launch, after resolve_stored, how weights are kept in memory. `checkpoint` null:
/// by the config alone. Throws Error(checkpoint_unusable).
void resolve_kept(const Json& config, const Checkpoint* checkpoint, const Keeping& keeping,
                  model::ModelSpec& spec);

}  // namespace plimsoll::checkpoint
