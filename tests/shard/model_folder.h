// Tiny model folders from recipes, and the contents of folders of tensors.
#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "base/json.h"
#include "batch/scratch.h"
#include "checkpoint/checkpoint.h"
#include "reference/recipe.h"
#include "shard/sha256.h"

namespace plimsoll::shard {

/// A file of tests/data.
inline Json read_fixture(const char* name) {
  constexpr size_t kLargest = size_t{8} << 20;
  return read_json_file(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/data" / name, kLargest);
}

/// Writes config.json and what the recipe describes to the scratch folder's "model".
inline void write_model(const test::Scratch& scratch, const Json& config, const Json& recipe) {
  std::filesystem::create_directories(scratch.path("recipe"));
  scratch.write("recipe/recipe.json", recipe.dump());
  scratch.write("recipe/config.json", config.dump());
  testing::write_checkpoint(scratch.path("recipe"), scratch.path("model"));
}

/// Writes an entry of multimodal_shards.json or quantized_towers.json to the folder's "model".
inline void make_multimodal_model(const test::Scratch& scratch, const Json& model) {
  Json tensors = Json::array();
  for (const Json& tensor : model.at("tensors")) {
    Json entry{{"name", tensor.at(0)}, {"shape", tensor.at(1)}, {"dtype", "BF16"}};
    if (tensor.size() > 2) entry["dtype"] = tensor.at(2);
    if (tensor.size() > 3) {
      entry.update(tensor.at(3));
    } else {
      entry["mean"] = 0.0;
      entry["amplitude"] = 0.1;
    }
    tensors.push_back(entry);
  }
  write_model(scratch, model.at("config"), {{"seed", 77}, {"tensors", tensors}});
  for (const auto& [name, file] : model.at("files").items()) {
    scratch.write("model/" + name, file.dump());
  }
}

/// dtype and bytes of each tensor of a checkpoint.
inline std::map<std::string, std::string> tensors_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> result;
  const auto checkpoint = checkpoint::Checkpoint::open(folder);
  for (const auto& [name, entry] : checkpoint.tensors()) {
    result[name] = std::string(safetensors_name(entry.dtype)) +
                   std::string(reinterpret_cast<const char*>(entry.data), entry.bytes);
  }
  return result;
}

/// Where a tensor of a safetensors file begins, in bytes of the file.
inline size_t begin_of(const std::string& file, const std::string& name) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const Json header = parse_json<Json>(file.substr(sizeof length, length));
  return sizeof length + length + header.at(name).at("data_offsets").at(0).get<size_t>();
}

inline std::string file_sha256(const std::filesystem::path& file) {
  return sha256_hex(read_text_file(file));
}

}  // namespace plimsoll::shard
