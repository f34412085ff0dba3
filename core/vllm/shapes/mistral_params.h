// Mistral's own params.json as a config.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll::vllm {

/// Puts Mistral's own params.json under the names of a config.json; leaves every other object as it
/// is. Throws Error(checkpoint_unusable), naming `path`, for what vLLM does not read.
void adapt_mistral_params(nlohmann::json& config, const std::string& path);

}  // namespace plimsoll::vllm
