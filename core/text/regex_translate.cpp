// Oniguruma's Ruby syntax to PCRE2's. What differs: `(?m)` is dotall and lines are always anchors,
// `\h` is a hex digit,
// `\v` one character, `\xE3\x81\x82` spells bytes, `{n,m}+` repeats the repetition, `{,n}` starts
// at none, classes nest and intersect, POSIX classes and `\w` follow Unicode, property names are
// free in spelling.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "text/regex.h"
#include "text/regex_tables.h"
#include "text/unicode.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMaxNesting = 100;

// A set of characters: the inside of a PCRE2 class when it is flat, else a pattern that matches one
// character.
struct CharacterSet {
  std::string body;
  bool negated = false;
  bool flat = true;

  [[nodiscard]] std::string pattern() const {
    if (!flat) return body;
    if (body.empty()) return negated ? "(?s:.)" : "(?!)";
    return (negated ? "[^" : "[") + body + "]";
  }
};

CharacterSet negate(CharacterSet set) {
  if (set.flat) {
    set.negated = !set.negated;
    return set;
  }
  return {"(?:(?!" + set.body + ")(?s:.))", false, false};
}

CharacterSet unite(const CharacterSet& a, const CharacterSet& b) {
  if (a.flat && b.flat && !a.negated && !b.negated) return {a.body + b.body, false, true};
  if (a.flat && a.body.empty() && !a.negated) return b;
  return {"(?:" + a.pattern() + "|" + b.pattern() + ")", false, false};
}

CharacterSet intersect(const CharacterSet& a, const CharacterSet& b) {
  return {"(?:(?=" + a.pattern() + ")" + b.pattern() + ")", false, false};
}

std::string spelled(char32_t character) {
  return fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(character));
}

std::string range(char32_t first, char32_t last) {
  return first == last ? spelled(first) : spelled(first) + "-" + spelled(last);
}

bool pcre2_knows(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF, &error, &offset, nullptr);
  const bool known = code != nullptr;
  pcre2_code_free(code);
  return known;
}

bool pcre2_has_unicode_16() {
  std::array<char, 64> version{};
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version.data());
  return std::atoi(version.data()) >= 16;
}

std::string recent(std::string_view category) {
  static const bool complete = pcre2_has_unicode_16();
  std::string out;
  if (complete) return out;
  for (const RecentRange& entry : kRecentCharacters) {
    if (std::string_view(entry.category).starts_with(category))
      out += range(entry.first, entry.last);
  }
  return out;
}

CharacterSet category_set(std::string_view category) {
  return {fmt::format("\\p{{{}}}", category) + recent(category)};
}

CharacterSet white_space() {
  return {
      "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"
      "\\x{3000}"};
}

// Alphabetic: letters, letter numbers, letters in circles and squares, and the marks (nearly all)
// that spell vowels.
CharacterSet alphabetic() {
  if (pcre2_knows("\\p{Alphabetic}")) return {"\\p{Alphabetic}" + recent("L") + recent("Mc")};
  return {
      "\\p{L}\\p{Nl}\\p{Mc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-"
      "\\x{1F189}"};
}

CharacterSet posix_word() {
  return {category_set("L").body + category_set("M").body + category_set("Nd").body +
          "\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-"
          "\\x{1F189}"};
}

// Oniguruma's \w counts the superscripts and fractions of Latin-1 in; [[:word:]] and \w within
// brackets do not.
CharacterSet word() {
  return {posix_word().body + "\\xB2\\xB3\\xB9\\xBC-\\xBE"};
}

CharacterSet everything() {
  return {"", true, true};
}

std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return out;
}

std::optional<std::string_view> category_name(const std::string& plain) {
  static const std::map<std::string_view, std::string_view> names = {{"letter", "L"},
                                                                     {"uppercaseletter", "Lu"},
                                                                     {"lowercaseletter", "Ll"},
                                                                     {"titlecaseletter", "Lt"},
                                                                     {"modifierletter", "Lm"},
                                                                     {"otherletter", "Lo"},
                                                                     {"mark", "M"},
                                                                     {"combiningmark", "M"},
                                                                     {"nonspacingmark", "Mn"},
                                                                     {"spacingmark", "Mc"},
                                                                     {"enclosingmark", "Me"},
                                                                     {"number", "N"},
                                                                     {"decimalnumber", "Nd"},
                                                                     {"digit", "Nd"},
                                                                     {"letternumber", "Nl"},
                                                                     {"othernumber", "No"},
                                                                     {"punctuation", "P"},
                                                                     {"punct", "P"},
                                                                     {"connectorpunctuation", "Pc"},
                                                                     {"dashpunctuation", "Pd"},
                                                                     {"openpunctuation", "Ps"},
                                                                     {"closepunctuation", "Pe"},
                                                                     {"initialpunctuation", "Pi"},
                                                                     {"finalpunctuation", "Pf"},
                                                                     {"otherpunctuation", "Po"},
                                                                     {"symbol", "S"},
                                                                     {"mathsymbol", "Sm"},
                                                                     {"currencysymbol", "Sc"},
                                                                     {"modifiersymbol", "Sk"},
                                                                     {"othersymbol", "So"},
                                                                     {"separator", "Z"},
                                                                     {"spaceseparator", "Zs"},
                                                                     {"lineseparator", "Zl"},
                                                                     {"paragraphseparator", "Zp"},
                                                                     {"other", "C"},
                                                                     {"control", "Cc"},
                                                                     {"cntrl", "Cc"},
                                                                     {"format", "Cf"},
                                                                     {"surrogate", "Cs"},
                                                                     {"privateuse", "Co"},
                                                                     {"unassigned", "Cn"},
                                                                     {"l", "L"},
                                                                     {"lu", "Lu"},
                                                                     {"ll", "Ll"},
                                                                     {"lt", "Lt"},
                                                                     {"lm", "Lm"},
                                                                     {"lo", "Lo"},
                                                                     {"m", "M"},
                                                                     {"mn", "Mn"},
                                                                     {"mc", "Mc"},
                                                                     {"me", "Me"},
                                                                     {"n", "N"},
                                                                     {"nd", "Nd"},
                                                                     {"nl", "Nl"},
                                                                     {"no", "No"},
                                                                     {"p", "P"},
                                                                     {"pc", "Pc"},
                                                                     {"pd", "Pd"},
                                                                     {"ps", "Ps"},
                                                                     {"pe", "Pe"},
                                                                     {"pi", "Pi"},
                                                                     {"pf", "Pf"},
                                                                     {"po", "Po"},
                                                                     {"s", "S"},
                                                                     {"sm", "Sm"},
                                                                     {"sc", "Sc"},
                                                                     {"sk", "Sk"},
                                                                     {"so", "So"},
                                                                     {"z", "Z"},
                                                                     {"zs", "Zs"},
                                                                     {"zl", "Zl"},
                                                                     {"zp", "Zp"},
                                                                     {"c", "C"},
                                                                     {"cc", "Cc"},
                                                                     {"cf", "Cf"},
                                                                     {"cs", "Cs"},
                                                                     {"co", "Co"},
                                                                     {"cn", "Cn"}};
  const auto found = names.find(plain);
  if (found == names.end()) return std::nullopt;
  return found->second;
}

CharacterSet named_set(std::string_view name) {
  const std::string plain = plain_name(name);
  if (const auto category = category_name(plain)) {
    // New letters are still unassigned to an older PCRE2.
    if (*category == "Cn" || *category == "C") {
      const std::string known = recent("");
      CharacterSet all{fmt::format("\\p{{{}}}", *category)};
      return known.empty() ? all : intersect(CharacterSet{known, true, true}, all);
    }
    return category_set(*category);
  }
  if (plain == "any") return everything();
  if (plain == "assigned") return negate(named_set("Cn"));
  if (plain == "ascii") return {"\\x00-\\x7F"};
  if (plain == "alpha" || plain == "alphabetic") return alphabetic();
  if (plain == "alnum") return unite(alphabetic(), category_set("Nd"));
  if (plain == "blank") return {"\\p{Zs}\\x09"};
  if (plain == "space" || plain == "whitespace") return white_space();
  if (plain == "xdigit") return {"0-9A-Fa-f"};
  if (plain == "word") return posix_word();
  if (plain == "upper" || plain == "uppercase")
    return {category_set("Lu").body +
            "\\x{2160}-\\x{216F}\\x{24B6}-\\x{24CF}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{"
            "1F170}-\\x{1F189}"};
  if (plain == "lower" || plain == "lowercase")
    return {category_set("Ll").body +
            "\\xAA\\xBA\\x{2B0}-\\x{2B8}\\x{2C0}\\x{2C1}\\x{2E0}-\\x{2E4}\\x{2170}-\\x{217F}\\x{"
            "24D0}-\\x{24E9}"};
  if (plain == "graph") return negate(unite(white_space(), {"\\p{Cc}\\p{Cs}\\p{Cn}"}));
  if (plain == "print") return negate({"\\p{Cc}\\p{Cs}\\p{Cn}\\p{Zl}\\p{Zp}"});
  static const bool has_script_prefix =
      pcre2_knows("\\p{sc:Han}");  // else \p{Han} is the script alone
  if (plain == "han") {
    std::string body = has_script_prefix ? "\\p{sc:Han}" : "\\p{Han}";
    for (const RecentRange& entry : kRecentHan) body += range(entry.first, entry.last);
    return {body};
  }
  const std::string script = fmt::format("\\p{{sc:{}}}", name);
  if (has_script_prefix && pcre2_knows(script.c_str())) return {script};
  return {fmt::format("\\p{{{}}}", name)};
}

// Where an escape stands.
enum class Within { pattern, character_class };

class Translator {
 public:
  explicit Translator(std::string_view pattern) : text_(pattern) {}

  std::string run() {
    std::string out = alternatives();
    if (at_ < text_.size()) refuse("unmatched ')'");
    return out;
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    throw RegexError(fmt::format("regular expression '{}', byte {}: {}",
                                 text_.size() <= 120 ? text_ : text_.substr(0, 120), at_, why));
  }
  [[nodiscard]] bool more() const { return at_ < text_.size(); }
  [[nodiscard]] bool ahead(std::string_view what) const {
    return text_.substr(at_).starts_with(what);
  }
  bool take(std::string_view what) {
    if (!ahead(what)) return false;
    at_ += what.size();
    return true;
  }
  char32_t character() {
    if (!more()) refuse("ends too early");
    return next_character(text_, at_);
  }
  void deeper() {
    if (++depth_ > kMaxNesting) refuse(fmt::format("nested deeper than {} levels", kMaxNesting));
  }

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

  // Behind a backslash: \w \d \s \h \p{...} and their negations.
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

  char32_t escaped_character() {
    const char32_t c = character();
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1B;
      case 'u':
        return hexadecimal(4);
      case 'x':
        return hexadecimal_escape();
      case '0':
        return octal();
      default:
        break;
    }
    if (c < 0x80 && (is_word(c) && c != '_'))
      refuse(fmt::format("'\\{}' is not supported", static_cast<char>(c)));
    return c;
  }

  char32_t hexadecimal(size_t most) {
    char32_t value = 0;
    size_t count = 0;
    for (; count < most && more(); ++count, ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'                     ? c - '0'
                        : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                 : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (count == 0) refuse("hexadecimal digits are missing");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) refuse("no such character");
    return value;
  }

  // \x{3042}, \x41, or the bytes of a character: \xE3\x81\x82.
  char32_t hexadecimal_escape() {
    if (take("{")) {
      const char32_t value = hexadecimal(8);
      if (!take("}")) refuse("a character's number is not closed");
      return value;
    }
    std::string bytes(1, static_cast<char>(hexadecimal(2)));
    const size_t length = utf8_length(bytes[0]);
    while (bytes.size() < length && take("\\x")) bytes += static_cast<char>(hexadecimal(2));
    if (!is_valid_utf8(bytes)) refuse("these bytes are no character");
    size_t at = 0;
    return next_character(bytes, at);
  }

  char32_t octal() {
    char32_t value = 0;
    for (int i = 0; i < 2 && more() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
      value = value * 8 + static_cast<char32_t>(text_[at_++] - '0');
    }
    return value;
  }

  // Behind '[': items up to the matching ']', '&&' between sets.
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

  std::string_view text_;
  size_t at_ = 0;
  size_t depth_ = 0;
  bool extended_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace plimsoll::text
