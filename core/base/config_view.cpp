#include "base/config_view.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace plimsoll {
namespace {

const Json& empty_object() {
  static const Json empty = Json::object();
  return empty;
}

std::string shortened(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  constexpr size_t kShown = 60;
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

}  // namespace

ConfigView::ConfigView(const Json& object, std::string path)
    : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) {
    fail(ExitCode::checkpoint_unusable, "{}: expected a JSON object, found {}", path_,
         shortened(object));
  }
}

const Json* ConfigView::find(Keys keys, const char** found) const {
  for (const char* key : keys) {
    const auto at = object_->find(key);
    if (at != object_->end() && !at->is_null()) {
      *found = key;
      return &*at;
    }
  }
  return nullptr;
}

void ConfigView::refuse(const char* key, const Json& value, const std::string& expected) const {
  fail(ExitCode::checkpoint_unusable, "{}: \"{}\" is {}, expected {}", path_, key, shortened(value),
       expected);
}

bool ConfigView::has(const char* key) const {
  const char* found = nullptr;
  return find({key}, &found) != nullptr;
}

bool ConfigView::is_text(const char* key) const {
  const char* found = nullptr;
  const Json* value = find({key}, &found);
  return value != nullptr && value->is_string();
}

int64_t ConfigView::to_integer(const char* key, const Json& value, Bounds bounds) const {
  int64_t result = 0;
  if (value.is_number_unsigned()) {
    const auto wide = value.get<uint64_t>();
    if (wide > static_cast<uint64_t>(INT64_MAX)) {
      refuse(key, value, fmt::format("at most {}", bounds.most));
    }
    result = static_cast<int64_t>(wide);
  } else if (value.is_number_integer()) {
    result = value.get<int64_t>();
  } else if (value.is_number_float() && std::abs(value.get<double>()) < 9e15 &&
             std::floor(value.get<double>()) == value.get<double>()) {
    result = static_cast<int64_t>(value.get<double>());
  } else {
    refuse(key, value, "an integer");
  }
  if (result < bounds.least || result > bounds.most) {
    refuse(key, value, fmt::format("an integer from {} to {}", bounds.least, bounds.most));
  }
  return result;
}

int64_t ConfigView::integer(Keys keys, int64_t fallback, Bounds bounds) const {
  const char* key = nullptr;
  const Json* value = find(keys, &key);
  if (value == nullptr) return fallback;
  return to_integer(key, *value, bounds);
}

int64_t ConfigView::required(Keys keys, Bounds bounds) const {
  const char* key = nullptr;
  const Json* value = find(keys, &key);
  if (value == nullptr) {
    fail(ExitCode::checkpoint_unusable, "{}: \"{}\" is missing, expected an integer from {} to {}",
         path_, *keys.begin(), bounds.least, bounds.most);
  }
  return to_integer(key, *value, bounds);
}

double ConfigView::number(Keys keys, double fallback) const {
  const char* key = nullptr;
  const Json* value = find(keys, &key);
  if (value == nullptr) return fallback;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key, *value, "a number");
  return value->get<double>();
}

bool ConfigView::flag(Keys keys, bool fallback) const {
  const char* key = nullptr;
  const Json* value = find(keys, &key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number_integer()) return value->get<int64_t>() != 0;
  refuse(key, *value, "true or false");
}

std::string ConfigView::text(Keys keys, const std::string& fallback) const {
  const char* key = nullptr;
  const Json* value = find(keys, &key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) refuse(key, *value, "a string");
  return value->get<std::string>();
}

std::string ConfigView::choice(const char* key, std::initializer_list<const char*> known) const {
  const std::string stated = text({key}, *known.begin());
  if (std::ranges::find(known, stated) == known.end())
    refuse(key, object_->at(key), fmt::format("one of {}", fmt::join(known, ", ")));
  return stated;
}

std::vector<int64_t> ConfigView::integers(Keys keys) const {
  const char* key = nullptr;
  const Json* value = find(keys, &key);
  std::vector<int64_t> result;
  if (value == nullptr) return result;
  const Bounds bounds{-(int64_t{1} << 31), int64_t{1} << 31};
  if (!value->is_array()) {
    result.push_back(to_integer(key, *value, bounds));
    return result;
  }
  for (const Json& element : *value) {
    result.push_back(element.is_boolean() ? int64_t{element.get<bool>()}
                                          : to_integer(key, element, bounds));
  }
  return result;
}

std::vector<std::string> ConfigView::texts(Keys keys) const {
  const char* key = nullptr;
  const Json* value = find(keys, &key);
  std::vector<std::string> result;
  if (value == nullptr) return result;
  if (!value->is_array()) refuse(key, *value, "a list of strings");
  for (const Json& element : *value) {
    if (!element.is_string()) refuse(key, element, "a list of strings");
    result.push_back(element.get<std::string>());
  }
  return result;
}

std::vector<std::vector<int64_t>> ConfigView::pairs(Keys keys) const {
  const char* key = nullptr;
  const Json* value = find(keys, &key);
  std::vector<std::vector<int64_t>> result;
  if (value == nullptr) return result;
  if (!value->is_array()) refuse(key, *value, "a list of pairs");
  for (const Json& pair : *value) {
    if (!pair.is_array() || pair.size() != 2) refuse(key, pair, "a pair of integers");
    const Bounds bounds{0, int64_t{1} << 31};
    result.push_back({to_integer(key, pair[0], bounds), to_integer(key, pair[1], bounds)});
  }
  return result;
}

bool ConfigView::has_child(Keys keys) const {
  for (const char* key : keys) {
    const auto at = object_->find(key);
    if (at != object_->end() && at->is_object()) return true;
  }
  return false;
}

ConfigView ConfigView::child(Keys keys) const {
  for (const char* key : keys) {
    const auto at = object_->find(key);
    if (at != object_->end() && at->is_object()) return {*at, path_ + ": " + key};
  }
  return {empty_object(), path_};
}

}  // namespace plimsoll
