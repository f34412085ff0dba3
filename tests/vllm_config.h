// A config as vLLM reads it.
#pragma once

#include <filesystem>

#include "base/config_json.h"
#include "model/class_defaults.h"

namespace plimsoll::test {

/// Reads a config and fills in the defaults of its class. Throws Error(checkpoint_unusable).
inline Json vllm_config(const std::filesystem::path& file) {
  Json config = read_config_json(file);
  model::complete_config(config, model::ConfigClasses::vllm);
  return config;
}

}  // namespace plimsoll::test
