// Oniguruma's Ruby syntax to PCRE2's. What differs: `(?m)` is dotall and lines are always anchors,
// `\h` is a hex digit,
// `\v` one character, `\xE3\x81\x82` spells bytes, `{n,m}+` repeats the repetition, `{,n}` starts
// at none, classes nest and intersect, POSIX classes and `\w` follow Unicode, property names are
// free in spelling.
#include <optional>

#include "base/error.h"
#include "text/regex/character_set.h"
#include "text/regex/pattern_reader.h"
#include "text/regex/regex.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

// The surroundings of an escape.
enum class Within { pattern, character_class };

class Translator : private PatternReader {
 public:
  using PatternReader::PatternReader;

  std::string run() {
    std::string out = alternatives();
    if (at_ < text_.size()) refuse("unmatched ')'");
    return out;
  }

 private:
  // ...|... up to the end or the closing parenthesis.
  std::string alternatives() {
    deeper();
    const bool extended = extended_;
    std::string out;
    while (more() && text_[at_] != ')') {
      if (take("|")) {
        out += '|';
        continue;
      }
      if (extended_ && skip_blank()) continue;
      out += quantified(atom());
    }
    extended_ = extended;
    --depth_;
    return out;
  }

  bool skip_blank() {
    if (take("#")) {
      while (more() && text_[at_] != '\n') ++at_;
      return true;
    }
    if (!is_white_space(static_cast<unsigned char>(text_[at_]))) return false;
    ++at_;
    return true;
  }

  // An atom with the quantifiers behind it. Oniguruma lets them follow one another; PCRE2 wants
  // groups.
  std::string quantified(std::string atom) {
    bool repeated = false;
    while (more()) {
      std::string quantifier;
      bool interval = false;
      const char c = text_[at_];
      if (c == '*' || c == '+' || c == '?') {
        quantifier = c;
        ++at_;
      } else if (const auto bounds = c == '{' ? interval_bounds() : std::nullopt) {
        quantifier = *bounds;
        interval = true;
      } else {
        break;
      }
      if (atom.empty()) refuse("nothing to repeat");
      const bool exact = interval && quantifier.find(',') == std::string::npos;
      if (!exact && take("?"))
        quantifier += '?';
      else if (!interval && take("+"))
        quantifier += '+';
      atom = (repeated ? "(?:" + atom + ")" : atom) + quantifier;
      repeated = true;
    }
    return atom;
  }

  // {n} {n,} {n,m} {,m}, else the brace stands for itself.
  std::optional<std::string> interval_bounds() {
    const size_t start = at_++;
    const auto digits = [&] {
      const size_t from = at_;
      while (more() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      return std::string(text_.substr(from, at_ - from));
    };
    const std::string low = digits();
    const bool comma = take(",");
    const std::string high = comma ? digits() : "";
    if ((low.empty() && high.empty()) || !take("}")) {
      at_ = start;
      return std::nullopt;
    }
    return "{" + (low.empty() ? "0" : low) + (comma ? "," + high : "") + "}";
  }

  std::string atom() {
    if (take("(")) return group();
    if (take("[")) return character_class().pattern();
    if (take("\\")) return escape_outside();
    if (take("{")) return "\\{";
    if (take(".")) return ".";
    if (take("^")) return "^";
    if (take("$")) return "$";
    if (ahead("*") || ahead("+") || ahead("?")) refuse("nothing to repeat");
    const size_t start = at_;
    character();
    std::string out(text_.substr(start, at_ - start));
    if (out == "}" || out == "]" || out == "#") out.insert(0, 1, '\\');
    return out;
  }

  std::string group() {
    if (take("?#")) {
      while (more() && text_[at_] != ')') ++at_;
      close();
      return "(?:)";
    }
    std::string opening = "(";
    if (take("?")) {
      if (const auto flags = options()) return *flags;
      opening += "?" + group_kind();
    } else if (ahead("*")) {
      refuse("callouts are not supported");
    }
    std::string inside = alternatives();
    close();
    return opening + inside + ")";
  }

  void close() {
    if (!take(")")) refuse("a parenthesis is not closed");
  }

  std::string group_kind() {
    for (const std::string_view kind : {":", "=", "!", ">", "<=", "<!"}) {
      if (take(kind)) return std::string(kind);
    }
    if (!ahead("<") && !ahead("'")) refuse("this kind of group is not supported");
    const char ending = text_[at_] == '<' ? '>' : '\'';
    const size_t end = text_.find(ending, at_ + 1);
    if (end == std::string_view::npos) refuse("a group's name is not closed");
    std::string name(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return "<" + name + ">";
  }

  // (?imx-imx) and (?imx-imx:...). Ruby's m is PCRE2's s.
  std::optional<std::string> options() {
    const size_t end = text_.find_first_not_of("imxsa-", at_);
    if (end == at_ || end == std::string_view::npos || (text_[end] != ')' && text_[end] != ':'))
      return std::nullopt;
    std::string flags;
    bool on = true;
    bool extended = extended_;
    for (; at_ < end; ++at_) {
      const char c = text_[at_];
      if (c == '-') on = false;
      if (c == 'x')
        extended = on;  // blanks and comments are dropped here
      else if (c != 'a')
        flags += c == 'm' ? 's' : c;
    }
    if (flags.ends_with('-')) flags.pop_back();
    if (take(")")) {
      // Holds for the rest of the enclosing group, alternatives included, as in Ruby.
      extended_ = extended;
      return "(?" + flags + ":" + alternatives() + ")";
    }
    ++at_;
    const bool before = extended_;
    extended_ = extended;
    std::string inside = alternatives();
    extended_ = before;
    close();
    return "(?" + flags + ":" + inside + ")";
  }

  std::string escape_outside() {
    const size_t start = at_;
    const char c = more() ? text_[at_] : '\0';
    if (const auto set = escaped_set(Within::pattern)) return set->pattern();
    switch (c) {
      case 'b':
        return ++at_, "(?:(?<=" + word().pattern() + ")(?!" + word().pattern() + ")|(?<!" +
                          word().pattern() + ")(?=" + word().pattern() + "))";
      case 'B':
        return ++at_, "(?:(?<=" + word().pattern() + ")(?=" + word().pattern() + ")|(?<!" +
                          word().pattern() + ")(?!" + word().pattern() + "))";
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'K':
      case 'R':
      case 'X':
        ++at_;
        return std::string("\\") + c;
      case 'k':
      case 'g': {
        const size_t end = text_.find_first_of(">'", at_ + 2);
        if (end == std::string_view::npos) refuse("a reference is not closed");
        at_ = end + 1;
        return "\\" + std::string(text_.substr(start, at_ - start));
      }
      default:
        break;
    }
    if (c >= '1' && c <= '9') {
      ++at_;
      while (more() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      return "(?:\\g{" + std::string(text_.substr(start, at_ - start)) + "})";
    }
    return spelled(escaped_character());
  }

  // The set of an escape behind a backslash: \w \d \s \h \p{...} and their negations.
  std::optional<CharacterSet> escaped_set(Within within) {
    if (!more()) refuse("ends with a backslash");
    const char c = text_[at_];
    const bool negative = c >= 'A' && c <= 'Z';
    CharacterSet set;
    switch (c | 0x20) {
      case 'w':
        set = within == Within::pattern ? word() : posix_word();
        break;
      case 'd':
        set = category_set("Nd");
        break;
      case 's':
        set = white_space();
        break;
      case 'h':
        set = {"0-9A-Fa-f"};
        break;
      case 'p':
        return property();
      case 'n':
        if (c != 'N') return std::nullopt;
        ++at_;
        return CharacterSet{"\\n", true, true};
      case 'o':
        if (c != 'O') return std::nullopt;
        ++at_;
        return everything();
      default:
        return std::nullopt;
    }
    if (negative) set = negate(set);
    ++at_;
    return set;
  }

  CharacterSet property() {
    const bool negative = text_[at_++] == 'P';
    std::string_view name;
    if (take("{")) {
      const size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) refuse("a property's name is not closed");
      name = text_.substr(at_, end - at_);
      at_ = end + 1;
    } else {
      if (!more()) refuse("a property has no name");
      name = text_.substr(at_++, 1);
    }
    const bool inverted = name.starts_with('^');
    if (inverted) name.remove_prefix(1);
    const CharacterSet set = named_set(name);
    return negative != inverted ? negate(set) : set;
  }

  // The set of a character class, behind its '[': items up to the matching ']', '&&' between sets.
  CharacterSet character_class() {
    deeper();
    const bool negated = take("^");
    std::optional<CharacterSet> left;  // of the last "&&"
    CharacterSet set;
    bool first = true;
    while (true) {
      if (!more()) refuse("a character class is not closed");
      if (!first && take("]")) break;
      if (first && ahead("]") && text_.find(']', at_ + 1) == std::string_view::npos)
        refuse("empty character class");
      first = false;
      if (take("&&")) {
        left = left ? intersect(*left, set) : set;
        set = {};
        continue;
      }
      set = unite(set, class_item());
    }
    --depth_;
    if (left) set = intersect(*left, set);
    return negated ? negate(set) : set;
  }

  CharacterSet class_item() {
    if (take("[:")) {
      const bool inverted = take("^");
      const size_t end = text_.find(":]", at_);
      if (end == std::string_view::npos) refuse("a POSIX class is not closed");
      const std::string_view name = text_.substr(at_, end - at_);
      at_ = end + 2;
      CharacterSet set =
          name == "punct" ? unite(category_set("P"), category_set("S")) : named_set(name);
      return inverted ? negate(set) : set;
    }
    if (take("[")) return character_class();
    if (ahead("\\")) {
      ++at_;
      if (const auto set = escaped_set(Within::character_class)) return *set;
      --at_;
    }
    const char32_t first = class_character();
    if (!ahead("-") || at_ + 1 >= text_.size() || text_[at_ + 1] == ']') return {spelled(first)};
    const size_t dash = at_++;
    if (ahead("[") || ahead("&&")) {
      at_ = dash;
      return {spelled(first)};
    }
    if (ahead("\\") && at_ + 1 < text_.size() &&
        std::string_view("wWdDsShHpP").find(text_[at_ + 1]) != std::string_view::npos) {
      at_ = dash;
      return {spelled(first)};
    }
    const char32_t last = class_character();
    if (last < first) refuse("a range in a character class runs backwards");
    return {range(first, last)};
  }

  char32_t class_character() {
    if (take("\\b")) return '\b';
    if (take("\\")) return escaped_character();
    return character();
  }

  bool extended_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace plimsoll::text
