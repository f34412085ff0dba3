#include "batch/fields/field_value.h"

#include <fmt/format.h>

#include <cmath>

#include "batch/line_error.h"

namespace plimsoll::batch {
namespace {

constexpr size_t kLongestNumber = 64;  // bytes, in quotes

// The number that a text in quotes holds, else the value itself.
OrderedJson without_quotes(const OrderedJson& value) {
  if (!value.is_string()) return value;
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > kLongestNumber) return value;
  OrderedJson number = OrderedJson::parse(text, nullptr, false);
  return number.is_number() ? number : value;
}

// A JSON number that is a whole int64; none otherwise.
std::optional<int64_t> whole(const OrderedJson& given) {
  const OrderedJson value = without_quotes(given);
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(FieldValue::kMost)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  // 2^63 is exact in a double and the first that does not fit.
  if (number != std::trunc(number) || std::abs(number) >= 0x1p63) return std::nullopt;
  return static_cast<int64_t>(number);
}

// A whole number that no int64 holds.
bool is_too_large(const OrderedJson& given) {
  const OrderedJson value = without_quotes(given);
  if (value.is_number_unsigned()) return !whole(value);
  return value.is_number_float() && std::abs(value.get<double>()) >= 0x1p63;
}

}  // namespace

std::string excerpt(const OrderedJson& value) {
  if (value.is_array() && value.size() > 8) return fmt::format("an array of {}", value.size());
  if (value.is_object() && value.size() > 8)
    return fmt::format("an object of {} keys", value.size());
  // ASCII, so that a cut cannot break a character.
  std::string text = rounded(value).dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

void FieldValue::refuse(std::string_view expected) const {
  throw LineError(code::bad_field,
                  fmt::format("{}: expected {}, found {}", name_, expected, excerpt(value_)),
                  name_);
}

bool FieldValue::boolean() const {
  if (value_ == "true" || value_ == "True") return true;
  if (value_ == "false" || value_ == "False") return false;
  if (!value_.is_boolean()) refuse("true or false");
  return value_.get<bool>();
}

int64_t FieldValue::integer(int64_t least, int64_t most) const {
  const std::optional<int64_t> number = whole(value_);
  if (!number || *number < least || *number > most) {
    if (most == kMost && is_too_large(value_)) {
      refuse(least == kLeast ? "a whole number from -2^63 to 2^63 - 1"
                             : fmt::format("a whole number from {} to 2^63 - 1", least));
    }
    if (least == kLeast && most == kMost) refuse("a whole number");
    refuse(most == kMost   ? fmt::format("a whole number of at least {}", least)
           : least == most ? fmt::format("{}", least)
                           : fmt::format("a whole number from {} to {}", least, most));
  }
  return *number;
}

double FieldValue::number(double least, double most) const {
  const OrderedJson value = without_quotes(value_);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least && number <= most)) {
    if (std::isinf(least) && std::isinf(most)) refuse("a number");
    refuse(std::isinf(most) ? fmt::format("a number of at least {}", least)
                            : fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

std::string FieldValue::string() const {
  if (!value_.is_string()) refuse("a string");
  return value_.get<std::string>();
}

std::string FieldValue::choice(std::span<const std::string_view> names) const {
  for (const std::string_view name : names) {
    if (value_ == name) return std::string(name);
  }
  refuse(fmt::format("one of {}", fmt::join(names, ", ")));
}

const OrderedJson& FieldValue::object() const {
  if (!value_.is_object()) refuse("an object");
  return value_;
}

const OrderedJson& FieldValue::array() const {
  if (!value_.is_array()) refuse("an array");
  return value_;
}

std::vector<std::string> FieldValue::strings() const {
  static constexpr std::string_view kExpected = "a string or an array of strings, none empty";
  std::vector<std::string> strings;
  if (value_.is_string()) {
    strings.push_back(value_.get<std::string>());
  } else if (value_.is_array()) {
    for (const OrderedJson& entry : value_) {
      if (!entry.is_string()) refuse(kExpected);
      strings.push_back(entry.get<std::string>());
    }
  } else {
    refuse(kExpected);
  }
  for (const std::string& text : strings) {
    if (text.empty()) refuse(kExpected);
  }
  return strings;
}

std::vector<int32_t> FieldValue::token_ids(int64_t vocabulary) const {
  std::vector<int32_t> ids;
  if (!value_.is_array()) refuse("an array of token ids");
  ids.reserve(value_.size());
  for (const OrderedJson& entry : value_) {
    const std::optional<int64_t> id = whole(entry);
    if (!id || *id < 0 || *id >= vocabulary) {
      throw LineError(code::bad_field,
                      fmt::format("{}: expected token ids from 0 to {}, found {}", name_,
                                  vocabulary - 1, excerpt(entry)),
                      name_);
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace plimsoll::batch
