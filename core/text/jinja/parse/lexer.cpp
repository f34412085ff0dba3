#include "text/jinja/parse/lexer.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>

#include "text/chat_template.h"
#include "text/jinja/parse/escapes.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

struct Operator {
  std::string_view text;
  Token token;
};

// Longer ones first.
constexpr Operator kOperators[] = {
    {"//", Token::floor_div},   {"**", Token::pow},
    {"==", Token::eq},          {"!=", Token::ne},
    {">=", Token::ge},          {"<=", Token::le},
    {"+", Token::add},          {"-", Token::sub},
    {"/", Token::div},          {"*", Token::mul},
    {"%", Token::mod},          {"~", Token::tilde},
    {"[", Token::left_bracket}, {"]", Token::right_bracket},
    {"(", Token::left_paren},   {")", Token::right_paren},
    {"{", Token::left_brace},   {"}", Token::right_brace},
    {">", Token::gt},           {"<", Token::lt},
    {"=", Token::assign},       {".", Token::dot},
    {":", Token::colon},        {"|", Token::pipe},
    {",", Token::comma},        {";", Token::semicolon},
};

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)), rest_(source_) {}

  std::vector<Lexeme> run() {
    while (at_ < rest_.size()) lex_data();
    put(Token::end, {});
    return std::move(lexemes_);
  }

 private:
  [[nodiscard]] bool starts(std::string_view text, size_t at) const {
    return rest_.substr(at).starts_with(text);
  }
  [[nodiscard]] size_t skip_space(size_t at) const {
    while (at < rest_.size()) {
      size_t after = at;
      if (!is_space(next_character(rest_, after))) break;
      at = after;
    }
    return at;
  }

  void advance(size_t to) {
    for (; at_ < to; ++at_) line_ += rest_[at_] == '\n';
  }
  void put(Token type, std::string text) { lexemes_.push_back({type, line_, std::move(text)}); }

  // The data before a tag that begins at `tag`, its whitespace controlled by the sign at `tag + 2`.
  void put_data(size_t tag, bool variable) {
    std::string_view data = rest_.substr(at_, tag - at_);
    const char sign = tag + 2 < rest_.size() ? rest_[tag + 2] : ' ';
    if (sign == '-') {
      data = strip(data, nullptr, Side::right);
    } else if (sign != '+' && !variable) {
      const size_t line_begin = data.rfind('\n') + 1;  // npos + 1 == 0
      const std::string_view indent = data.substr(line_begin);
      if ((line_begin > 0 || line_starting_) && strip(indent, nullptr, Side::both).empty()) {
        data = data.substr(0, line_begin);
      }
    }
    if (!data.empty()) put(Token::data, std::string(data));
    advance(tag);
  }

  static bool is_sign(char c) { return c == '-' || c == '+'; }

  void lex_data() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = rest_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= rest_.size()) {
        put(Token::data, std::string(rest_.substr(at_)));
        advance(rest_.size());
        return;
      }
      if (rest_[tag + 1] == '{' || rest_[tag + 1] == '%' || rest_[tag + 1] == '#') break;
    }
    const char kind = rest_[tag + 1];
    put_data(tag, kind == '{');
    const size_t inside = tag + 2 + (tag + 2 < rest_.size() && is_sign(rest_[tag + 2]) ? 1 : 0);
    if (kind == '#') return lex_comment(inside);
    if (kind == '%') {
      if (const auto end = raw_tag(tag, "raw", false)) return lex_raw(*end);
    }
    put(kind == '{' ? Token::variable_begin : Token::block_begin, {});
    advance(inside);
    line_starting_ = false;
    lex_expression(kind == '{' ? Token::variable_end : Token::block_end);
  }

  // The end of a tag at `at` if one is there: `-%}` eats whitespace, a plain `%}` the newline
  // (trim_blocks).
  [[nodiscard]] std::optional<size_t> tag_end(size_t at, std::string_view mark, bool trims) const {
    if (starts(mark, at)) {
      const size_t end = at + 2;
      return trims && end < rest_.size() && rest_[end] == '\n' ? end + 1 : end;
    }
    if (at < rest_.size() && rest_[at] == '-' && starts(mark, at + 1)) return skip_space(at + 3);
    if (trims && at < rest_.size() && rest_[at] == '+' && starts(mark, at + 1)) return at + 3;
    return std::nullopt;
  }

  // Matches a whole `{% raw %}` or `{% endraw %}` at `at`.
  [[nodiscard]] std::optional<size_t> raw_tag(size_t at, std::string_view word, bool trims) const {
    size_t after = at + 2;
    if (after < rest_.size() && is_sign(rest_[after])) ++after;
    after = skip_space(after);
    if (!starts(word, after)) return std::nullopt;
    return tag_end(skip_space(after + word.size()), "%}", trims);
  }

  void finish(size_t end) {
    line_starting_ = end > 0 && rest_[end - 1] == '\n';
    advance(end);
  }

  void lex_comment(size_t inside) {
    const size_t at = rest_.find("#}", inside);
    if (at == std::string_view::npos) fail_syntax("Missing end of comment tag", line_);
    const bool signed_end = at > inside && is_sign(rest_[at - 1]);
    finish(*tag_end(signed_end ? at - 1 : at, "#}", true));
  }

  void lex_raw(size_t inside) {
    finish(inside);
    for (size_t at = rest_.find("{%", at_); at != std::string_view::npos;
         at = rest_.find("{%", at + 1)) {
      if (const auto end = raw_tag(at, "endraw", true)) {
        put_data(at, false);
        return finish(*end);
      }
    }
    fail_syntax("Missing end of raw directive", line_);
  }

  void lex_expression(Token closing) {
    const std::string_view mark = closing == Token::variable_end ? "}}" : "%}";
    std::vector<char> open;
    while (true) {
      if (open.empty()) {
        if (const auto end = tag_end(at_, mark, closing == Token::block_end)) {
          put(closing, {});
          return finish(*end);
        }
      }
      const size_t after = skip_space(at_);
      if (after != at_) {
        advance(after);
        continue;
      }
      if (at_ >= rest_.size()) return;  // the parser reports the missing end
      const char c = rest_[at_];
      if (is_ascii_digit(c)) {
        lex_number();
      } else if (c == '"' || c == '\'') {
        lex_string(c);
      } else if (!lex_name()) {
        lex_operator(open);
      }
    }
  }

  // Digits in groups joined by single underscores.
  template <typename Accept>
  [[nodiscard]] size_t digits(size_t at, Accept accept) const {
    size_t end = at;
    while (end < rest_.size()) {
      size_t next = end;
      if (end > at && rest_[next] == '_') ++next;
      if (next >= rest_.size() || !accept(rest_[next])) break;
      end = next + 1;
    }
    return end;
  }
  [[nodiscard]] size_t decimal(size_t at) const { return digits(at, is_ascii_digit); }

  [[nodiscard]] std::optional<size_t> float_end() const {
    if (at_ > 0 && rest_[at_ - 1] == '.') return std::nullopt;
    const size_t whole = decimal(at_);
    size_t end = whole;
    if (end < rest_.size() && rest_[end] == '.' && decimal(end + 1) > end + 1)
      end = decimal(end + 1);
    size_t exponent = end;
    if (exponent < rest_.size() && (rest_[exponent] | 32) == 'e') {
      ++exponent;
      if (exponent < rest_.size() && is_sign(rest_[exponent])) ++exponent;
      if (decimal(exponent) > exponent) end = decimal(exponent);
    }
    return end > whole ? std::optional(end) : std::nullopt;
  }

  void lex_number() {
    if (const auto end = float_end()) return take(Token::floating, *end);
    if (rest_[at_] == '0' && at_ + 1 < rest_.size()) {
      const char base = static_cast<char>(rest_[at_ + 1] | 32);
      const auto accept = [base](char c) {
        if (base == 'x') return std::isxdigit(static_cast<unsigned char>(c)) != 0;
        return c >= '0' && c <= (base == 'b' ? '1' : '7');
      };
      const size_t first = at_ + 2 + (starts("_", at_ + 2) ? 1 : 0);
      if ((base == 'x' || base == 'o' || base == 'b') && digits(first, accept) > first) {
        return take(Token::integer, digits(first, accept));
      }
    }
    const bool zero = rest_[at_] == '0';
    take(Token::integer,
         digits(at_, [zero](char c) { return zero ? c == '0' : is_ascii_digit(c); }));
  }

  void take(Token type, size_t end) {
    std::string text;
    for (const char c : rest_.substr(at_, end - at_)) {
      if (c != '_' || type == Token::name) text += c;
    }
    put(type, std::move(text));
    advance(end);
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size())
      fail_syntax(fmt::format("unexpected char '{}': the string does not end", quote), line_);
    put(Token::string, decode_escapes(rest_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1);
  }

  bool lex_name() {
    size_t end = at_;
    while (end < rest_.size()) {
      size_t after = end;
      const char32_t code = next_character(rest_, after);
      if (!is_word(code) &&
          (code < 0x80 || !is_identifier("a" + std::string(rest_.substr(end, after - end)))))
        break;
      end = after;
    }
    if (end == at_) return false;
    if (!is_identifier(rest_.substr(at_, end - at_)))
      fail_syntax("Invalid character in identifier", line_);
    take(Token::name, end);
    return true;
  }

  void lex_operator(std::vector<char>& open) {
    for (const auto& [text, token] : kOperators) {
      if (!starts(text, at_)) continue;
      const char c = text[0];
      if (c == '(') open.push_back(')');
      if (c == '[') open.push_back(']');
      if (c == '{') open.push_back('}');
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty()) fail_syntax(fmt::format("unexpected '{}'", c), line_);
        if (open.back() != c)
          fail_syntax(fmt::format("unexpected '{}', expected '{}'", c, open.back()), line_);
        open.pop_back();
      }
      put(token, std::string(text));
      return advance(at_ + text.size());
    }
    size_t after = at_;
    next_character(rest_, after);
    fail_syntax(fmt::format("unexpected char {}", rest_.substr(at_, after - at_)), line_);
  }

  const std::string source_;
  const std::string_view rest_;  // the whole source
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // whether the last tag ate the newline behind it
  std::vector<Lexeme> lexemes_;
};

}  // namespace

std::vector<Lexeme> tokenize(std::string_view source) {
  return Lexer(source).run();
}

std::string describe(const Lexeme& lexeme) {
  switch (lexeme.type) {
    case Token::name:
      return lexeme.text;
    case Token::end:
      return "end of template";
    case Token::block_end:
      return "end of statement block";
    case Token::variable_end:
      return "end of print statement";
    case Token::string:
      return "string";
    case Token::integer:
      return "integer";
    case Token::floating:
      return "float";
    default:
      return lexeme.text;
  }
}

void fail_syntax(const std::string& message, int line) {
  throw TemplateError(fmt::format("{} (template line {})", message, line));
}

}  // namespace plimsoll::text::jinja
