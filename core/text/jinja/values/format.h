// Python's three ways of formatting: %, str.format and format specifications.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/values/runtime.h"

namespace plimsoll::text::jinja {

/// format % values
Value format_percent(Runtime& runtime, const Value& format, const Value& values);
/// format.format(...) and format.format_map(mapping)
Value format_method(Runtime& runtime, const Value& self, const Args& args);
Value format_map_method(Runtime& runtime, const Value& self, const Args& args);

/// format(value, specification)
std::string format_value(Runtime& runtime, const Value& value, const std::string& specification);

/// str() for conversion s, repr() for r, ASCII repr() for a; escaped for HTML on demand.
enum class Escape : uint8_t { no, html };
std::string converted(Runtime& runtime, const Value& value, char conversion, Escape escape);
/// Digits at `at`, which moves behind them; huge numbers stop at 2^63 - 1.
Int read_digits(std::string_view text, size_t& at);

/// What a format specification says.
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  bool alternate = false;  // #
  bool zero = false;
  bool negative_zero = true;  // false: `z`, no minus for what rounds to zero
  char grouping = 0;          // , or _
  Int width = 0;
  Int precision = -1;
  char type = 0;
};

std::string format_int(Runtime& runtime, Int value, const FormatSpec& spec);
std::string format_float(Runtime& runtime, double value, const FormatSpec& spec);
/// Pads to the width; `sign_length` leading bytes stay in front of = padding.
std::string pad(Runtime& runtime, std::string text, const FormatSpec& spec, char default_align,
                size_t sign_length = 0);

}  // namespace plimsoll::text::jinja
