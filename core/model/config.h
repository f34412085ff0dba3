// config.json and generation_config.json of a Hugging Face checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// A file beside config.json that may state the quantization in its place, and the method it stands
/// for where the file names none.
struct QuantizationFile {
  const char* name;
  const char* method;
};
inline constexpr QuantizationFile kQuantizationFiles[] = {
    {"hf_quant_config.json", "modelopt"},  // ModelOpt
    {"quantize_config.json", "gptq"},      // AutoGPTQ, and AutoAWQ with a method
    {"quant_config.json", "awq"},          // AutoAWQ
};

/// Message for a folder without a config.json: what it is, and what to give in its place.
std::string missing_config(const std::filesystem::path& folder);

/// "MLX, 4 bits" for a config whose weights MLX has quantized; else empty.
std::string mlx_quantization(const Json& config);

/// Reads config.json (a file, or the one in a folder), and the quantization from a file beside it
/// where config.json states none. Throws Error(checkpoint_unusable).
Json read_config(const std::filesystem::path& folder_or_file);

/// Calls `read`; a refusal that begins with "config.json" gets the path of `file` in its place.
template <typename Read>
decltype(auto) naming_config(const std::filesystem::path& file, const Read& read) {
  constexpr std::string_view kName = "config.json";
  try {
    return read();
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (!what.starts_with(kName)) throw;
    fail(error.code(), "{}{}", file.string(), what.substr(kName.size()));
  }
}

/// The model that a config describes. Unknown architectures and unsupported values are refused by
/// name (Error(checkpoint_unusable)), as are absurd numbers, before anything is allocated in
/// proportion to them.
ModelSpec make_model_spec(const Json& config);

/// Describes the language model of a config as a model of the given architecture, whether or not
/// `run` computes it; the first expert stands for all. nullopt: no family has the architecture.
/// Throws Error(checkpoint_unusable).
std::optional<ModelSpec> describe_language_model(std::string_view architecture, const Json& config);
/// True for a text model that is described, be it for `plan` alone.
bool is_language_model(std::string_view architecture);
/// Architecture of a language model's `model_type`; empty: no row has that type.
std::string architecture_of_type(std::string_view model_type);

/// A checkpoint's folder without its tensors: the config, and its spec with the buffers of vLLM's
/// class that the image processor's configuration fills.
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
