// Python's three ways of formatting: %, str.format and format specifications.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/values/runtime.h"

namespace plimsoll::text::jinja {

/// format % values
Value format_percent(Runtime& runtime, const Value& format, const Value& values);
/// format.format(...)
Value format_method(Runtime& runtime, const Value& self, const Args& args);

/// Reads the number at `at`, and moves `at` past it; huge numbers stop at 2^63 - 1.
Int read_digits(std::string_view text, size_t& at);

/// A parsed format specification: [[fill]align][sign][0][width][grouping][.precision][type].
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  char grouping = 0;  // , or _
  Int width = 0;
  Int precision = -1;
  char type = 0;
};

/// Formats as %s (and {}), cut to `precision` characters where it is given.
std::string format_text(Runtime& runtime, std::string text, const FormatSpec& spec,
                        char default_align);
/// Formats with types d, x, X, o, b or none.
std::string format_int(Runtime& runtime, Int value, const FormatSpec& spec);
/// Formats with types e, f, g, their upper cases, % or none.
std::string format_float(Runtime& runtime, double value, const FormatSpec& spec);

}  // namespace plimsoll::text::jinja
