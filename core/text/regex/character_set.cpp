#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex/character_set.h"

#include <pcre2.h>

#include <array>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/error.h"
#include "text/regex/tables.h"

namespace plimsoll::text {

std::string CharacterSet::pattern() const {
  if (!flat) return body;
  if (body.empty()) return negated ? "(?s:.)" : "(?!)";
  return (negated ? "[^" : "[") + body + "]";
}

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

namespace {

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

}  // namespace

CharacterSet category_set(std::string_view category) {
  return {fmt::format("\\p{{{}}}", category) + recent(category)};
}

CharacterSet white_space() {
  return {
      "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"
      "\\x{3000}"};
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

namespace {

// Alphabetic: letters, letter numbers, letters in circles and squares, and the marks (nearly all)
// that spell vowels.
CharacterSet alphabetic() {
  if (pcre2_knows("\\p{Alphabetic}")) return {"\\p{Alphabetic}" + recent("L") + recent("Mc")};
  return {
      "\\p{L}\\p{Nl}\\p{Mc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-"
      "\\x{1F189}"};
}

std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return out;
}

// clang-format off
constexpr std::array<std::pair<std::string_view, std::string_view>, 37> kCategoryNames = {{
    {"letter", "L"}, {"uppercaseletter", "Lu"}, {"lowercaseletter", "Ll"}, {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"}, {"otherletter", "Lo"}, {"mark", "M"}, {"combiningmark", "M"}, {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"}, {"enclosingmark", "Me"}, {"number", "N"}, {"decimalnumber", "Nd"}, {"digit", "Nd"},
    {"letternumber", "Nl"}, {"othernumber", "No"}, {"punctuation", "P"}, {"punct", "P"}, {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"}, {"openpunctuation", "Ps"}, {"closepunctuation", "Pe"}, {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"}, {"otherpunctuation", "Po"}, {"symbol", "S"}, {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"}, {"modifiersymbol", "Sk"}, {"othersymbol", "So"}, {"separator", "Z"},
    {"control", "Cc"}, {"cntrl", "Cc"}, {"format", "Cf"}, {"privateuse", "Co"}, {"unassigned", "Cn"}, {"other", "C"}}};
// clang-format on

std::optional<std::string> category_name(const std::string& plain) {
  for (const auto& [name, category] : kCategoryNames) {
    if (plain == name) return std::string(category);
  }
  // The short names: one of these letters, with one that refines it.
  constexpr std::array<std::string_view, 7> kShort = {"Lultmo", "Mnce", "Ndlo",  "Pcdseifo",
                                                      "Smcko",  "Zslp", "Ccfson"};
  for (const std::string_view letters : kShort) {
    const std::string group(1, letters[0]);
    if (plain.empty() || plain[0] != (letters[0] | 0x20)) continue;
    if (plain.size() == 1) return group;
    if (plain.size() == 2 && letters.substr(1).find(plain[1]) != std::string_view::npos)
      return group + plain[1];
  }
  return std::nullopt;
}

}  // namespace

namespace {

// New letters are still unassigned to an older PCRE2.
CharacterSet unassigned_set(std::string_view category) {
  const std::string known = recent("");
  CharacterSet all{fmt::format("\\p{{{}}}", category)};
  return known.empty() ? all : intersect(CharacterSet{known, true, true}, all);
}

// Cased characters that are no cased letters; of the lower case ones, those that texts have.
constexpr const char* kUpperSymbols =
    "\\x{2160}-\\x{216F}\\x{24B6}-\\x{24CF}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-"
    "\\x{1F189}";
constexpr const char* kLowerSymbols =
    "\\xAA\\xBA\\x{2B0}-\\x{2B8}\\x{2C0}\\x{2C1}\\x{2E0}-\\x{2E4}\\x{2170}-\\x{217F}\\x{24D0}-\\x{"
    "24E9}";

// The properties that are no general category, by their plain names.
std::optional<CharacterSet> property_set(const std::string& plain) {
  const std::string upper = category_set("Lu").body + kUpperSymbols;
  const std::string lower =
      category_set("Ll").body + (pcre2_knows("\\p{Lowercase}") ? "\\p{Lowercase}" : kLowerSymbols);
  static const std::map<std::string_view, CharacterSet> sets = {
      {"any", everything()},
      {"assigned", negate(unassigned_set("Cn"))},
      {"ascii", {"\\x00-\\x7F"}},
      {"alpha", alphabetic()},
      {"alphabetic", alphabetic()},
      {"alnum", unite(alphabetic(), category_set("Nd"))},
      {"blank", {"\\p{Zs}\\x09"}},
      {"space", white_space()},
      {"whitespace", white_space()},
      {"xdigit", {"0-9A-Fa-f"}},
      {"word", posix_word()},
      {"upper", {upper}},
      {"uppercase", {upper}},
      {"lower", {lower}},
      {"lowercase", {lower}},
      {"graph", negate(unite(unite(white_space(), {"\\p{Cc}\\p{Cs}"}), unassigned_set("Cn")))},
      {"print", negate(unite({"\\p{Cc}\\p{Cs}\\p{Zl}\\p{Zp}"}, unassigned_set("Cn")))}};
  const auto found = sets.find(plain);
  if (found == sets.end()) return std::nullopt;
  return found->second;
}

CharacterSet script_set(std::string_view name, const std::string& plain) {
  static const bool has_prefix = pcre2_knows("\\p{sc:Han}");  // else \p{Han} is the script alone
  const std::string script =
      has_prefix ? fmt::format("\\p{{sc:{}}}", name) : fmt::format("\\p{{{}}}", name);
  if (!pcre2_knows(script.c_str())) return {fmt::format("\\p{{{}}}", name)};
  CharacterSet set{script};
  if (plain == "han") {
    for (const RecentRange& entry : kRecentHan) set.body += range(entry.first, entry.last);
  }
  return set;
}

}  // namespace

CharacterSet named_set(std::string_view name) {
  const std::string plain = plain_name(name);
  if (const auto category = category_name(plain)) {
    return *category == "Cn" || *category == "C" ? unassigned_set(*category)
                                                 : category_set(*category);
  }
  if (const auto property = property_set(plain)) return *property;
  return script_set(name, plain);
}

}  // namespace plimsoll::text
