// Models of a local LM Studio, which keeps them as PUBLISHER/MODEL/FILE.gguf in its own folder:
// .lmstudio below the user's (before 0.3.5 .cache/lm-studio) or, where it was moved, what
// .lmstudio-home-pointer names.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll::checkpoint::gguf {

/// The model of `name` that the user of `home` has (empty: nobody): of "publisher/model" the one
/// GGUF model in that folder, or the folder where it has a config.json; of
/// "publisher/model/file.gguf" that file. Throws Error(checkpoint_unusable) where it is not there,
/// naming the `lms get` command, or where the folder has several models, listing them.
std::filesystem::path find_lm_studio(const std::string& name, const std::filesystem::path& home);

}  // namespace plimsoll::checkpoint::gguf
