// config.json and generation_config.json of a Hugging Face checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// A file beside config.json that may state the quantisation in its place, and whose it is where
/// the file does not say it.
struct QuantizationFile {
  const char* name;
  const char* method;
};
inline constexpr QuantizationFile kQuantizationFiles[] = {
    {"hf_quant_config.json", "modelopt"},  // ModelOpt
    {"quantize_config.json", "gptq"},      // AutoGPTQ, and AutoAWQ with a method
    {"quant_config.json", "awq"},          // AutoAWQ
};

/// What a folder without a config.json is, and what to give in its place.
std::string missing_config(const std::filesystem::path& folder);

/// "MLX, 4 bits" of a config whose weights MLX has quantised; empty: they are not.
std::string mlx_quantization(const Json& config);

/// Reads config.json (a file, or the one in a folder), with the quantisation that a file beside it
/// states where it states none. Throws Error(checkpoint_unusable).
Json read_config(const std::filesystem::path& folder_or_file);

/// The model that a config describes. Unknown architectures and unsupported values are refused by
/// name (Error(checkpoint_unusable)), as are absurd numbers, before anything is allocated in
/// proportion to them.
ModelSpec make_model_spec(const Json& config);

/// The language model that a config describes as one of the architecture: the same, whether or not
/// `run` computes it; of its experts the first stands for all. nullopt: no family has the
/// architecture. Throws Error(checkpoint_unusable).
std::optional<ModelSpec> describe_language_model(std::string_view architecture, const Json& config);
bool is_language_model(std::string_view architecture);
/// That of a language model's `model_type`; empty: it is none's.
std::string architecture_of_type(std::string_view model_type);

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
