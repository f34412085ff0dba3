// Rules of xgrammar's EBNF: texts, sets of code points, and JSON strings that an automaton takes.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "grammar/patterns/automaton.h"
#include "grammar/shapes.h"

namespace plimsoll::grammar {

/// The JSON of a string, quotes included: raw but for what must be escaped.
std::string json_text_of(std::u32string_view text);
/// The JSON of a string in ASCII alone.
std::string ascii_json_of(std::u32string_view text);
/// The parts with `between` between them.
std::string joined(const std::vector<std::string>& parts, std::string_view between);
/// A literal of EBNF for these bytes of UTF-8.
std::string literal(std::string_view utf8);
/// A class of EBNF. The set is not empty.
std::string char_class(const CharSet& set);

/// The grammar, whose first rule is its start, without rules and alternatives that no text
/// completes: rules that lead to themselves alone or to names without a rule. Empty where no text
/// is left.
std::string without_dead_ends(const std::string& grammar);

/// A grammar as it is written. Throws TooLarge beyond 10,000 rules and 8 MB.
class Rules {
 public:
  /// A rule of that kind's first letters and a number; its body may be added later.
  std::string name(std::string_view kind);
  void add(const std::string& name, const std::string& body);
  /// A rule with alternatives, at least one.
  std::string choice(std::string_view kind, const std::vector<std::string>& alternatives);

  /// Rules for the texts of an automaton as they are: numbers, patterns.
  std::string plain(const Dfa& dfa);
  /// Rules for JSON strings, quotes included; nothing where the automaton is empty.
  std::string json_string(const StringPart& part);
  std::string any_string();

  [[nodiscard]] std::string text() const { return text_; }

 private:
  /// A character of a JSON string as itself, and in its escaped forms; empty: it has none.
  struct JsonChars {
    std::string raw, escaped;
    std::string any;  // the rule for all of them; empty: not asked for yet
  };

  /// One character of a string, then the rule `next`.
  std::string character_and(const std::string& next);
  /// A rule for so many characters of a string.
  std::string exactly(uint64_t count);
  /// A rule for `least` to `most` more characters of a string and its closing quote. xgrammar
  /// keeps a mask for each state, and tries tokens that leave a rule anew at each mask. So states
  /// count two blocks of characters only. Longer strings are two alternatives: a block and the
  /// rest, or a string that may end in this block or the next, which takes the tokens that cross
  /// the end of the first.
  std::string rest(uint64_t least, uint64_t most);
  JsonChars& json_chars(const CharSet& set);
  /// A character of a JSON string in any form, as one symbol.
  std::string json_char(const CharSet& set);
  std::string states(const Dfa& dfa, bool json);

  std::string text_;
  size_t rules_ = 0;
  std::map<std::string, int, std::less<>> numbers_;
  std::map<std::vector<uint32_t>, JsonChars> char_rules_;
  std::vector<std::pair<StringPart, std::string>> strings_;
  std::map<uint64_t, std::string> exact_;                       // by count
  std::map<std::pair<uint64_t, uint64_t>, std::string> rests_;  // by least and most
  std::string any_string_;
};

}  // namespace plimsoll::grammar
