#include "launch/overrides.h"

#include "base/json.h"

namespace plimsoll::launch {

void override_config(Json& config, const Json& overrides) {
  for (const auto& [key, value] : overrides.items()) {
    const auto held = config.find(key);
    const bool is_config = key.ends_with("_config") && key != "quantization_config";
    if (is_config && value.is_object() && held != config.end() && held->is_object()) {
      override_config(*held, value);
      continue;
    }
    if (key == "rope_parameters") config.erase("rope_scaling");
    if (key == "rope_scaling") config.erase("rope_parameters");
    config[key] = value;
  }
}

}  // namespace plimsoll::launch
