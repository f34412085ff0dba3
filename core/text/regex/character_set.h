// Sets of characters in PCRE2's spelling, with the contents that Oniguruma gives them.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::text {

// A set of characters: the inside of a PCRE2 class when it is flat, else a pattern that matches one
// character.
struct CharacterSet {
  std::string body;
  bool negated = false;
  bool flat = true;

  /// A pattern that matches one character of the set.
  [[nodiscard]] std::string pattern() const;
};

CharacterSet negate(CharacterSet set);
CharacterSet unite(const CharacterSet& a, const CharacterSet& b);
CharacterSet intersect(const CharacterSet& a, const CharacterSet& b);

/// The spelling of a character, and of a range within brackets.
std::string spelled(char32_t character);
std::string range(char32_t first, char32_t last);

CharacterSet everything();
CharacterSet white_space();
/// A general category by its short name.
CharacterSet category_set(std::string_view category);
/// [[:word:]]
CharacterSet posix_word();
/// \w outside brackets, which counts the superscripts and fractions of Latin-1 in.
CharacterSet word();
/// \p{name}: a category, a property, a POSIX class or a script, freely spelled.
CharacterSet named_set(std::string_view name);

}  // namespace plimsoll::text
