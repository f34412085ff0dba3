// A config put into the form that the table of architectures reads.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll::vllm {

/// What transformers' classes assume, as JSON by model_type (class_defaults.json): a key's value,
/// "key|its other name"'s value, and for a config within one its own object or usual model_type.
const char* class_defaults_text();

/// Fills in what transformers assumes where the config says nothing.
void complete_config(nlohmann::json& config);

/// Puts Mistral's own params.json under the names of a config.json; leaves every other object as it
/// is. Throws Error(checkpoint_unusable), naming `path`, for what vLLM does not read.
void adapt_mistral_params(nlohmann::json& config, const std::string& path);

}  // namespace plimsoll::vllm
