// Python's view of UTF-8 text: code points, character classes, case.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja/values/value.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text::jinja {

/// The code point that ends at `end`; moves `end` before it.
char32_t previous_code_point(std::string_view text, size_t& end);
/// Byte offset of code point `index` (at most the length).
size_t byte_offset(const String& text, size_t index);
/// Number of code points before byte `offset`.
size_t code_point_index(const String& text, size_t offset);
size_t count_code_points(std::string_view text);

bool is_space(char32_t code);
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_numeric(char32_t code);
bool is_word(char32_t code);  // the regular expression \w
bool is_printable(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_title(char32_t code);
bool is_cased(char32_t code);
bool is_identifier(std::string_view text);
/// Ends of lines as str.splitlines knows them.
bool is_line_end(char32_t code);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);
std::string capitalize(std::string_view text);

/// Python's strip: whitespace when `chars` is null.
enum class Side : uint8_t { left = 1, right = 2, both = 3 };
std::string_view strip(std::string_view text, const std::string* chars, Side side);
/// Searches in linear time. `npos` when absent.
size_t find_bytes(std::string_view text, std::string_view needle, size_t from = 0);
size_t rfind_bytes(std::string_view text, std::string_view needle);
/// Markupsafe's escape of & < > ' ".
std::string escape_html(std::string_view text);

}  // namespace plimsoll::text::jinja
