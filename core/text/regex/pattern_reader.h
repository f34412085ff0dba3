// A cursor over a regular expression in Oniguruma's syntax, and the characters that it spells.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::text {

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : text_(pattern) {}

 protected:
  [[noreturn]] void refuse(std::string_view why) const;
  [[nodiscard]] bool more() const { return at_ < text_.size(); }
  [[nodiscard]] bool ahead(std::string_view what) const {
    return text_.substr(at_).starts_with(what);
  }
  bool take(std::string_view what);
  char32_t character();
  /// Reads the character after a backslash, unescaped.
  char32_t escaped_character();
  /// Enters a level of nesting; refuses patterns nested too deep.
  void deeper();

  std::string_view text_;
  size_t at_ = 0;
  size_t depth_ = 0;

 private:
  char32_t hexadecimal(size_t most);
  char32_t hexadecimal_escape();
  char32_t octal();
};

}  // namespace plimsoll::text
