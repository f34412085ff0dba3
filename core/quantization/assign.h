// Which weights of a model are quantized, and how each is kept: fills the weight table by a
// configuration and the checkpoint's tensors.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "model/model_spec.h"
#include "quantization/formats/format.h"

namespace plimsoll::quantization {

/// Finds the tensor of a checkpoint that has this name, or another spelling of it.
using FindStored = std::function<std::optional<StoredTensor>(const std::string& name)>;

/// Which inputs of products are rounded: none; those for which the checkpoint's format asks for it;
/// those of blocks of a GGUF file too, for which llama.cpp does it.
enum class Activations : uint8_t { whole, rounded, rounded_blocks };

/// Gives parts of the table their packing, by config's quantization_config, and empties
/// spec.quantization. `find` null: by the configuration alone, without a checkpoint. The stored
/// tensors have the last word on which modules are quantized. Throws Error(checkpoint_unusable),
/// naming the module, for schemes that `run` does not support.
void assign_packings(const Json& config, const FindStored& find, Activations activations,
                     model::ModelSpec& spec);

/// The stored matrix of a part: its module and tensors.
StoredMatrix stored_matrix(const model::WeightSpec& weight, const model::Part& part,
                           const FindStored& find);

}  // namespace plimsoll::quantization
