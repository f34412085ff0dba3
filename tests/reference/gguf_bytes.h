// GGUF files from recipes (tests/data/golden/README.md), and broken ones.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace plimsoll::testing {

/// Bytes of the file that a recipe describes: "seed", "kv" [key, type, value], "tensors". A file
/// that llama.cpp's converter made of a checkpoint has "sources" too, the rules of the checkpoint's
/// tensors, and each of its tensors says the numbers of which it is ("of", tests/data/golden).
std::string gguf_bytes(const Json& recipe);

/// Writes the header of a recipe with "data": false, whose tensors may have "layers"; the file has
/// its full size without data.
void write_gguf_header(const Json& recipe, const std::filesystem::path& file);

/// Names and bytes of the files of a list such as tests/data/golden/gguf/hostile.jsonl, the valid
/// one first.
std::vector<std::pair<std::string, std::string>> hostile_gguf_files(const std::string& list);

}  // namespace plimsoll::testing
