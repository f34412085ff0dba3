// Mistral's own params.json as a config.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll::vllm {

/// Renames Mistral's own params.json to the keys of a config.json; leaves every other object
/// unchanged. Throws Error(checkpoint_unusable), naming `path`, for values that vLLM does not read.
void adapt_mistral_params(nlohmann::json& config, const std::string& path);

}  // namespace plimsoll::vllm
