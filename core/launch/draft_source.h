// The draft model of --speculative-config: a second model of the same launch.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/json.h"
#include "launch/model_source.h"
#include "model/config.h"

namespace plimsoll::launch {

/// True for a config.json, or another file of JSON, of which plans alone are made.
bool is_lone_config(const std::filesystem::path& path);

class DraftSource {
 public:
  /// `path`: a folder, a lone config or a GGUF file; `weights` as of the large model. Throws
  /// Error(checkpoint_unusable).
  DraftSource(std::filesystem::path path, Weights weights);
  DraftSource(const DraftSource&) = delete;
  DraftSource& operator=(const DraftSource&) = delete;

  /// The model that proposes tokens for `large`, which runs in `dtype`; lives as long as the
  /// source. Throws Error(usage) where it cannot, with the reason; else as ModelSource::spec.
  const model::ModelSpec& spec(const model::ModelSpec& large, DType dtype);
  /// Reads the weights of `spec`, which spec() gave; null where there are none.
  const checkpoint::WeightSource* reader(const model::ModelSpec& spec);

 private:
  std::filesystem::path path_;
  model::ModelFolder model_;
  ModelSource source_;
  std::map<DType, model::ModelSpec> specs_;  // by the dtype that they run in
};

}  // namespace plimsoll::launch
