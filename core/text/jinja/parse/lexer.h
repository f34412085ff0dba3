// Template source to tokens: jinja2's lexer with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text::jinja {

enum class Token : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  floating,
  add,
  sub,
  div,
  floor_div,
  mul,
  mod,
  pow,
  tilde,
  left_bracket,
  right_bracket,
  left_paren,
  right_paren,
  left_brace,
  right_brace,
  eq,
  ne,
  gt,
  ge,
  lt,
  le,
  assign,
  dot,
  colon,
  pipe,
  comma,
  semicolon,
  end,
};

struct Lexeme {
  Token type;
  int line;
  std::string text;  // data, name, decoded string, digits of a number
};

/// Splits source into lexemes, the last of which is Token::end. Throws TemplateError with the line
/// on malformed source.
std::vector<Lexeme> tokenize(std::string_view source);

/// Name of the token in messages.
std::string describe(const Lexeme& lexeme);

/// Throws a TemplateError that names the line.
[[noreturn]] void fail_syntax(const std::string& message, int line);

}  // namespace plimsoll::text::jinja
