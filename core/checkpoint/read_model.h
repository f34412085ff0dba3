// A model's description, from a Hugging Face folder or from a GGUF file.
#pragma once

#include <filesystem>

#include "model/config.h"

namespace plimsoll::checkpoint {

/// Reads the config of a folder or of a GGUF file, and the spec that it describes. Throws
/// Error(checkpoint_unusable).
model::ModelFolder read_model(const std::filesystem::path& folder_or_file);

/// The config of a folder, of a config.json, or of a GGUF file.
Json read_config(const std::filesystem::path& path);

}  // namespace plimsoll::checkpoint
