// --hf-overrides: changes keys of a config.json for a launch.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace plimsoll::launch {

/// Puts the keys of `overrides` in place of the config's, as vLLM does (config.update): objects of
/// inner configs ("text_config") key by key, all else whole. Where rope_parameters or rope_scaling
/// is overridden the other one, which states the same, is removed.
void override_config(nlohmann::json& config, const nlohmann::json& overrides);

}  // namespace plimsoll::launch
