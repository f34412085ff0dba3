// Models of a local Ollama, whose store names files by digest.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace plimsoll::checkpoint::gguf {

/// True for a part of a model's name in a store: nothing that leads out of it.
bool is_plain_name(std::string_view text);

/// The GGUF file of `name` ("llama3.2", "llama3.2:1b", "org/name:tag") in the store, by the model's
/// manifest. Throws Error(checkpoint_unusable) where the store or the model is not there, naming
/// the `ollama pull` command.
std::filesystem::path find_ollama(const std::string& name, const std::filesystem::path& store);

}  // namespace plimsoll::checkpoint::gguf
