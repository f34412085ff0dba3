// What classes of configs assume where a config is silent.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace plimsoll::model {

/// What transformers' classes assume, as JSON by model_type (class_defaults.json): a key's value,
/// "key|its other name"'s value, and for a config within one its own object or usual model_type.
const char* class_defaults_text();

/// Fills in what transformers assumes where the config says nothing.
void complete_config(nlohmann::json& config);

}  // namespace plimsoll::model
