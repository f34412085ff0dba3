// Fields of a Python config that --engine-args states.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_view.h"
#include "base/json.h"
#include "engines/command_line.h"

namespace plimsoll::engines {

/// An object of fields; every look-up throws Error(usage) naming --engine-args, the field and what
/// was expected.
class Fields {
 public:
  explicit Fields(Json object);

  /// Refuses the first name that is none of `known`, as Python's class of that name does. Throws
  /// Refusal.
  void check_names(std::string_view python_class,
                   std::initializer_list<std::string_view> known) const;
  [[nodiscard]] bool has(const char* key) const;
  [[nodiscard]] int64_t integer(const char* key, int64_t missing, Bounds bounds = {}) const;
  [[nodiscard]] std::optional<int64_t> integer(const char* key, Bounds bounds = {}) const;
  [[nodiscard]] double number(const char* key, double missing) const;
  [[nodiscard]] bool flag(const char* key, bool missing) const;
  [[nodiscard]] std::string text(const char* key, const std::string& missing) const;
  /// The object at `key`, or an empty one.
  [[nodiscard]] Fields object(const char* key) const;

 private:
  [[nodiscard]] ConfigView view() const { return {object_, "--engine-args"}; }
  Json object_;
};

/// A flag of an engine's command line, and the field that it sets.
struct FieldFlag {
  std::string_view flag;  // its key
  const char* field;
};

/// The fields of --engine-args, and those that flags set, which win.
Json with_flags(const Json& fields, const CommandLine& line, std::span<const Flag> flags,
                std::span<const FieldFlag> meanings);

}  // namespace plimsoll::engines
