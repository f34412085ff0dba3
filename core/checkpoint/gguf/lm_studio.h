// Models of a local LM Studio, which keeps them as PUBLISHER/MODEL/FILE.gguf.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll::checkpoint::gguf {

/// The model of `name` in the store: of "publisher/model" the one GGUF model in that folder, or the
/// folder where it has a config.json; of "publisher/model/file.gguf" that file. Throws
/// Error(checkpoint_unusable) where it is not there, naming the `lms get` command, or where the
/// folder has several models, listing them.
std::filesystem::path find_lm_studio(const std::string& name, const std::filesystem::path& store);

}  // namespace plimsoll::checkpoint::gguf
