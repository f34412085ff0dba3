#include <cmath>

#include "base/error.h"
#include "model/config.h"
#include "model/config_reader.h"

namespace plimsoll::model {
namespace {

namespace fs = std::filesystem;

// Ids of `eos_token_id`: a number, a list of numbers, or null.
std::vector<int32_t> read_eos(const Json* value, const std::string& file) {
  std::vector<int32_t> ids;
  if (value == nullptr || value->is_null()) return ids;
  const auto take = [&](const Json& id) {
    if (id == -1) return;  // none
    if (!id.is_number_integer() || id < 0 || id > 0x7fffffff) {
      fail(ExitCode::checkpoint_unusable,
           "{}: \"eos_token_id\" is not a token id or a list of token ids", file);
    }
    ids.push_back(id.get<int32_t>());
  };
  if (value->is_array()) {
    for (const Json& id : *value) take(id);
  } else {
    take(*value);
  }
  return ids;
}

const Json* member(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// A number of generation_config.json; nullopt when missing or null.
std::optional<double> number(const Json& json, const char* key, const fs::path& file) {
  const Json* value = member(json, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    fail(ExitCode::checkpoint_unusable, "{}: \"{}\" is {}; expected a number", file.string(), key,
         value->type_name());
  }
  return value->get<double>();
}

std::optional<int64_t> whole_number(const Json& json, const char* key, const fs::path& file) {
  const auto value = number(json, key, file);
  if (!value) return std::nullopt;
  if (*value != std::floor(*value) || std::abs(*value) > 0x1p53) {
    fail(ExitCode::checkpoint_unusable, "{}: \"{}\" is {}; expected a whole number", file.string(),
         key, *value);
  }
  return static_cast<int64_t>(*value);
}

}  // namespace

GenerationConfig read_generation_config(const fs::path& folder, const Json& config) {
  const fs::path file = folder / "generation_config.json";
  const Json json = fs::exists(file) ? read_json_file(file, size_t{1} << 20) : Json::object();
  if (!json.is_object()) {
    fail(ExitCode::checkpoint_unusable, "{}: expected an object", file.string());
  }
  GenerationConfig result;
  result.eos_token_ids = read_eos(member(json, "eos_token_id"), file.string());
  if (result.eos_token_ids.empty()) {
    result.eos_token_ids =
        read_eos(ConfigReader::root(config).find({"eos_token_id"}), "config.json");
  }
  result.temperature = number(json, "temperature", file);
  result.top_p = number(json, "top_p", file);
  result.min_p = number(json, "min_p", file);
  result.repetition_penalty = number(json, "repetition_penalty", file);
  result.top_k = whole_number(json, "top_k", file);
  result.max_new_tokens = whole_number(json, "max_new_tokens", file);
  return result;
}

}  // namespace plimsoll::model
