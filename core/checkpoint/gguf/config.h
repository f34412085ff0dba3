// Metadata of a GGUF file as the config.json of the same model.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/gguf/model.h"

namespace plimsoll::checkpoint::gguf {

/// The config that transformers has of the model, made of the metadata and, where these do not say
/// it, of which tensors are there. It states no dtype. Throws Error(checkpoint_unusable) naming the
/// file and the key for values that no model has, and for architectures that are not known.
Json make_config(const Model& model);

/// Values of "general.architecture" that make_config() knows, sorted.
std::vector<std::string> known_architectures();

}  // namespace plimsoll::checkpoint::gguf
