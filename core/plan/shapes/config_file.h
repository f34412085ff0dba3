// Reading a config.json that Python wrote.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace plimsoll::plan {

/// Python's json writes NaN and Infinity, which are no JSON: they become the strings "NaN",
/// "Infinity" and "-Infinity", so that a key that needs a number refuses them by name.
std::string without_python_numbers(std::string_view text);

/// What transformers' classes assume, as JSON by model_type (class_defaults.json): a key's value,
/// "key|its other name"'s value, and for a config within one its own object or usual model_type.
const char* class_defaults_text();

/// Fills in what transformers assumes where the config says nothing.
void complete_config(nlohmann::json& config);

/// Puts Mistral's own params.json under the names of a config.json; leaves every other object as it
/// is. Throws Error(checkpoint_unusable), naming `path`, for what vLLM does not read.
void adapt_mistral_params(nlohmann::json& config, const std::string& path);

/// Reads a config, as it is stated. Throws Error(checkpoint_unusable) naming file, line and column.
nlohmann::json read_config_json(const std::filesystem::path& file);

}  // namespace plimsoll::plan
