// model.safetensors.index.json: which file holds which tensor.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::checkpoint {

struct Index {
  std::vector<std::string> files;                       // plain file names, in order of appearance
  std::vector<std::pair<std::string, size_t>> tensors;  // name and index into `files`
};

/// Reads the weight_map. Throws Error(checkpoint_unusable) for names that are no plain file names
/// (nothing outside the model's folder is ever opened) and for anything malformed.
Index read_index(const std::filesystem::path& file);

}  // namespace plimsoll::checkpoint
