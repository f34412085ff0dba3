// Typed, range-checked access to one request field. Every refusal names the field.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace plimsoll::batch {

/// A field of a request and its value, which is not null. All accessors throw LineError(bad_field).
class FieldValue {
 public:
  static constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

  FieldValue(std::string_view name, const OrderedJson& value) : name_(name), value_(value) {}

  /// Numbers, true and false may stand in quotes, as vLLM takes them.
  [[nodiscard]] bool boolean() const;
  /// Whole numbers may be written 5.0.
  [[nodiscard]] int64_t integer(int64_t least, int64_t most = kMost) const;
  [[nodiscard]] double number(double least, double most) const;
  [[nodiscard]] std::string string() const;
  /// One of `names`.
  [[nodiscard]] std::string choice(std::span<const std::string_view> names) const;
  [[nodiscard]] const OrderedJson& object() const;
  [[nodiscard]] const OrderedJson& array() const;
  /// One string or an array of them, none empty.
  [[nodiscard]] std::vector<std::string> strings() const;
  /// An array of ids in [0, vocabulary).
  [[nodiscard]] std::vector<int32_t> token_ids(int64_t vocabulary) const;
  [[nodiscard]] const OrderedJson& json() const { return value_; }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// "NAME: expected EXPECTED, found VALUE".
  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  std::string_view name_;
  const OrderedJson& value_;
};

/// A value as an error message shows it: JSON, cut to 40 bytes.
std::string excerpt(const OrderedJson& value);

}  // namespace plimsoll::batch
