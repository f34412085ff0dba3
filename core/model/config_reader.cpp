#include "model/config_reader.h"

#include <cmath>

#include "base/error.h"

namespace plimsoll::model {
namespace {

const Json* member(const Json* object, std::string_view key) {
  if (object == nullptr) return nullptr;
  const auto at = object->find(key);
  return at == object->end() ? nullptr : &*at;
}

std::string shown(const Json* value) {
  constexpr size_t kLongest = 60;
  if (value == nullptr) return "missing";
  if (value->is_structured() && value->size() > 16) {
    return fmt::format("{} of {} entries", value->is_array() ? "a list" : "an object",
                       value->size());
  }
  std::string text = value->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

std::string range_text(IntegerRange range) {
  if (range.most == std::numeric_limits<int64_t>::max()) {
    return fmt::format("a whole number from {}", range.least);
  }
  return fmt::format("a whole number from {} to {}", range.least, range.most);
}

}  // namespace

ConfigReader ConfigReader::plain(const Json& object) {
  if (!object.is_object()) {
    fail(ExitCode::checkpoint_unusable, "config.json: is {}; expected an object", shown(&object));
  }
  return {"", &object, nullptr};
}

ConfigReader ConfigReader::describing(const Json& object) {
  ConfigReader reader = plain(object);
  reader.describes_ = true;
  return reader;
}

ConfigReader ConfigReader::whole() const {
  return outer_ == nullptr ? *this : plain(*outer_);
}

ConfigReader ConfigReader::object_or_empty(std::string_view key) const {
  static const Json empty = Json::object();
  return object(key).value_or(ConfigReader(fmt::format("{}.", key), &empty, nullptr, describes_));
}

ConfigReader ConfigReader::reading(const Json& object) const {
  return {path_, &object, nullptr, describes_};
}

ConfigReader ConfigReader::root(const Json& config) {
  for (const char* key : {"text_config", "llm_config"}) {
    const Json* text = config.is_object() ? member(&config, key) : nullptr;
    if (text == nullptr || text->is_null()) continue;
    if (!text->is_object()) plain(config).refuse(key, "an object");
    return {fmt::format("{}.", key), text, &config};
  }
  return plain(config);
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) const {
  const Json* value = find({key});
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) doubt(key, "an object");
  if (!value->is_object() || value->empty()) return std::nullopt;
  return ConfigReader(fmt::format("{}{}.", path_, key), value, nullptr, describes_);
}

bool ConfigReader::has(std::string_view key) const {
  return member(inner_, key) != nullptr || member(outer_, key) != nullptr;
}

std::pair<std::string_view, const Json*> ConfigReader::entry(Keys keys) const {
  for (const Json* object : {inner_, outer_}) {
    for (const std::string_view key : keys) {
      const Json* value = member(object, key);
      if (value != nullptr && !value->is_null()) return {key, value};
    }
  }
  return {*keys.begin(), nullptr};
}

const Json* ConfigReader::find(Keys keys) const {
  return entry(keys).second;
}

std::optional<int64_t> ConfigReader::integer(Keys keys, IntegerRange range) const {
  const auto [key, value] = entry(keys);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (describes_ && range.most_described > 0) range.most = range.most_described;
  if (!number || *number < range.least || *number > range.most) refuse(key, range_text(range));
  return number;
}

int64_t ConfigReader::integer(Keys keys, int64_t missing, IntegerRange range) const {
  return integer(keys, range).value_or(missing);
}

std::optional<double> ConfigReader::positive(Keys keys) const {
  const auto [key, value] = entry(keys);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : 0;
  if (number > 0 && std::isfinite(number)) return number;
  doubt(key, "a finite number above 0");  // no weight depends on it
  return std::nullopt;
}

int64_t ConfigReader::required(Keys keys, IntegerRange range) const {
  const auto number = integer(keys, range);
  if (!number) refuse(*keys.begin(), range_text(range));
  return *number;
}

double ConfigReader::positive(Keys keys, double missing) const {
  return positive(keys).value_or(missing);
}

bool ConfigReader::boolean(Keys keys, bool missing) const {
  const auto [key, value] = entry(keys);
  if (value == nullptr) return missing;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(Keys keys, std::string_view missing) const {
  const auto [key, value] = entry(keys);
  if (value == nullptr) return std::string(missing);
  if (!value->is_string()) refuse(key, "a string");
  return value->get<std::string>();
}

std::vector<double> ConfigReader::positives(std::string_view key, size_t count) const {
  const Json* value = find({key});
  const std::string expected = fmt::format("a list of {} finite numbers above 0", count);
  if (value == nullptr || !value->is_array() || value->size() != count) refuse(key, expected);
  std::vector<double> numbers;
  numbers.reserve(count);
  for (const Json& item : *value) {
    const double number = item.is_number() ? item.get<double>() : 0;
    if (!(number > 0) || !std::isfinite(number)) refuse(key, expected);
    numbers.push_back(number);
  }
  return numbers;
}

std::optional<std::vector<std::string>> ConfigReader::texts(std::string_view key) const {
  const Json* value = find({key});
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse(key, "a list of strings");
  std::vector<std::string> words;
  words.reserve(value->size());
  for (const Json& item : *value) {
    if (!item.is_string()) refuse(key, "a list of strings");
    words.push_back(item.get<std::string>());
  }
  return words;
}

void ConfigReader::refuse(std::string_view key, const std::string& expected) const {
  fail(ExitCode::checkpoint_unusable, "config.json: \"{}{}\" is {}; expected {}", path_, key,
       shown(entry({key}).second), expected);
}

void ConfigReader::doubt(std::string_view key, const std::string& expected) const {
  if (!describes_) refuse(key, expected);
}

}  // namespace plimsoll::model
