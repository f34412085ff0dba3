// What classes of configs assume where a config is silent.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace plimsoll::model {

/// What classes assume, as JSON by model_type (class_defaults.json): a key's value, "key|other
/// names"'s value, for a config within one its own object or usual model_type, and for
/// "rope_parameters" all of them.
const char* class_defaults_text();

/// Whose classes: vLLM has some of its own, of types that transformers knows too.
enum class ConfigClasses { transformers, vllm };

/// Fills in what the config's class assumes where it says nothing. `usual_type`: that of its
/// architecture, for a config of a type that has no class, or of none.
void complete_config(nlohmann::json& config, ConfigClasses whose, std::string_view usual_type = {});

}  // namespace plimsoll::model
