// The methods of Python's built-in types.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/filters/filters.h"

namespace plimsoll::text::jinja {

Method find_string_method(std::string_view name);
/// Searching, splitting and joining; the other half of str.
Method find_string_search_method(std::string_view name);
Method find_sequence_method(std::string_view name, bool list);
Method find_dict_method(std::string_view name);
Method find_float_method(std::string_view name);

/// A table row and its look-up.
struct NamedMethod {
  std::string_view name;
  Method method;
};
template <typename Table>
Method look_up(const Table& table, std::string_view name) {
  for (const NamedMethod& row : table) {
    if (row.name == name) return row.method;
  }
  return nullptr;
}

/// str.replace with at most `count` replacements (all when negative).
Value replace_text(Runtime& runtime, const Value& self, const std::string& old,
                   const std::string& with, Int count);
/// sep.join(items); every item must be a string.
Value join_text(Runtime& runtime, const Value& separator, const Value& items);
enum class LineEnds : uint8_t { drop, keep };
std::vector<Value> split_lines(Runtime& runtime, const Value& self, LineEnds ends);
Value pad_center(Runtime& runtime, const Value& self, Int width, const std::string& fill);

}  // namespace plimsoll::text::jinja
