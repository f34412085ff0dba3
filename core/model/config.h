// config.json and generation_config.json of a Hugging Face checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// Reads config.json (a file, or the one in a folder), with the quantisation that ModelOpt keeps in
/// hf_quant_config.json beside it. Throws Error(checkpoint_unusable).
Json read_config(const std::filesystem::path& folder_or_file);

/// The model that a config describes. Unknown architectures and unsupported values are refused by
/// name (Error(checkpoint_unusable)), as are absurd numbers, before anything is allocated in
/// proportion to them.
ModelSpec make_model_spec(const Json& config);

/// A checkpoint's folder without its tensors. The spec is that of the config, with the buffers of
/// vLLM's that the image processor's configuration fills.
struct ModelFolder {
  Json config;
  ModelSpec spec;
};
ModelFolder read_model_folder(const std::filesystem::path& folder);

/// Names of all architectures that run supports, sorted.
std::vector<std::string> supported_architectures();

/// Sampling defaults and end-of-sequence ids of a checkpoint. Missing file or field: nullopt /
/// empty.
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;  // generation_config's, else config's
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
};
GenerationConfig read_generation_config(const std::filesystem::path& folder, const Json& config);

}  // namespace plimsoll::model
