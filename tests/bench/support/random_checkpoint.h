// A checkpoint of random bf16 weights, for speed alone.
#pragma once

#include <filesystem>

#include "model/model_spec.h"

namespace plimsoll::testing {

/// A folder with config.json (`config` as text) and model.safetensors of what `config` needs, under
/// /dev/shm where there is one, so that nothing is written to a disk; removed at the end.
class RandomCheckpoint {
 public:
  explicit RandomCheckpoint(const char* config);
  ~RandomCheckpoint() { std::filesystem::remove_all(folder_); }
  RandomCheckpoint(const RandomCheckpoint&) = delete;
  RandomCheckpoint& operator=(const RandomCheckpoint&) = delete;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }

 private:
  std::filesystem::path folder_;
  model::ModelSpec spec_;
};

}  // namespace plimsoll::testing
