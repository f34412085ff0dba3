// Defaults of transformers' and vLLM's config classes, for keys that a config leaves out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace plimsoll::model {

/// Defaults of config classes as JSON by model_type (class_defaults.json): a key's value;
/// "key|other names"'s value; for a config within a config its own object or usual model_type; for
/// "rope_parameters" all of them.
const char* class_defaults_text();

/// Whose config classes: vLLM has some of its own, for types that transformers knows too.
enum class ConfigClasses { transformers, vllm };

/// Fills in the defaults of the config's class. `usual_type`: the model_type of its architecture,
/// for a config without a type or of a type that has no class.
void complete_config(nlohmann::json& config, ConfigClasses whose, std::string_view usual_type = {});

}  // namespace plimsoll::model
