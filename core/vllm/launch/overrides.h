// --hf-overrides: keys of a config.json as the launch has them.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace plimsoll::vllm {

/// Puts the keys of `overrides` in place of the config's, as vLLM does (config.update): objects of
/// configs within ("text_config") key by key, all else whole. Of rope_parameters and rope_scaling,
/// which say the same, the overridden one stays.
void override_config(nlohmann::json& config, const nlohmann::json& overrides);

}  // namespace plimsoll::vllm
