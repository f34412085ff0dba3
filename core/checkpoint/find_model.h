// Where a model lies on this machine: folders, files, and the stores of other programs.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll::checkpoint {

/// Folders in which other programs keep models; empty: there is none. The caller reads the
/// environment.
struct ModelStores {
  std::filesystem::path hub;          // Hugging Face's cache, ".../hub"
  std::filesystem::path ollama = {};  // Ollama's, "~/.ollama/models"
  std::filesystem::path home = {};    // the user's, below which LM Studio has its own
};

/// The folder or GGUF file of MODEL: a local directory (or the one GGUF model in it), a GGUF file,
/// "ollama:NAME" or "ollama:NAME:TAG" for one of Ollama's, "lmstudio:PUBLISHER/MODEL" (or a file
/// there) for one of LM Studio's, or a hub id ("org/name", "org/name@revision") that the cache
/// holds (newest snapshot of refs/main). Throws Error(checkpoint_unusable); for a miss it names the
/// command that gets it, for `wanted` files alone where these are named.
std::filesystem::path find_model(const std::string& model, const ModelStores& stores,
                                 const std::string& wanted = "");

}  // namespace plimsoll::checkpoint
