// Words and lists of PTX's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::ptx {

/// With spaces in their place.
std::string without_comments(std::string_view text);
std::string trimmed(std::string_view text);
/// Whether the character may stand in a name.
bool is_of_name(char character);
/// Between commas, but for those within brackets.
std::vector<std::string> split_list(std::string_view text);
/// The elements of "{a, b}"; of anything else itself.
std::vector<std::string> split_vector(const std::string& text);
/// Between dots.
std::vector<std::string> split_name(std::string_view text);
/// Of a type ("b32"); 0: it is none.
size_t type_bytes(std::string_view type);
/// The number before a name's bracket: of "x[16]" 16, of "x[]" 0, of "x" 1. The bracket goes.
size_t take_count(std::string& name);
/// Bits of a literal, of a float or (`wide`) a double where it is one.
uint64_t parse_number(const std::string& text, bool wide);

/// A place behind `bytes` bytes that is aligned; `bytes` grows to the end of what lies there.
size_t reserve(size_t& bytes, size_t size, size_t alignment);

/// An instruction's text: guard ("p1" or "!p1"), parts of its name, operands.
struct Statement {
  std::string guard;
  std::vector<std::string> parts;
  std::vector<std::string> operands;
  [[nodiscard]] bool has(std::string_view part) const;
  /// Whether a part begins so: "shared" of "shared::cta".
  [[nodiscard]] bool has_beginning(std::string_view part) const;
  [[nodiscard]] std::string name() const;
};
Statement parse_statement(const std::string& text);

/// A mangled name with every anonymous namespace named as the host's compiler does.
std::string plain_symbol(const std::string& mangled);

}  // namespace plimsoll::ptx
