// The escape sequences of string literals.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::text::jinja {

/// Decodes Python's unicode-escape. Lone surrogates become three bytes each; `line` is for the
/// TemplateError.
std::string decode_escapes(std::string_view literal, int line);

}  // namespace plimsoll::text::jinja
