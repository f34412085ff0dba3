// Texts as people copy them from web pages, chats and terminals, made those that were typed.
#include <cctype>
#include <regex>
#include <string_view>
#include <utility>

#include "base/split_text.h"
#include "base/trim.h"
#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {
namespace {

using Replacement = std::pair<std::string_view, std::string_view>;

void replace_all(std::string& text, const Replacement& what) {
  std::string out;
  size_t begin = 0;
  for (size_t at = 0; (at = text.find(what.first, begin)) != std::string::npos;
       begin = at + what.first.size()) {
    out.append(text, begin, at - begin).append(what.second);
  }
  if (begin > 0) text = out.append(text, begin);
}

bool is_letter(const std::string& text, size_t at) {
  return at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) != 0;
}

constexpr size_t kMark = 3;  // bytes of a curly quote and of a long dash

bool is_mark(const std::string& text, size_t at, KnownNames marks) {
  return text[at] == '\xE2' && is_among(marks, std::string_view(text).substr(at, kMark));
}

/// A single curly quote as "'"; an apostrophe between two letters stays.
std::string with_straight_quotes(const std::string& text) {
  constexpr std::string_view kQuotes[] = {"\u2018", "\u2019", "\u201A"};
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool is_quote = is_mark(text, at, kQuotes);
    const bool apart = is_quote && at > 0 && is_letter(text, at - 1) && is_letter(text, at + kMark);
    out += is_quote && !apart ? '\'' : text[at];
    if (is_quote && !apart) at += kMark - 1;
  }
  return out;
}

/// A dash, or two, that a word processor has made of "-" or "--", where a word begins.
std::string with_typed_dashes(const std::string& text) {
  constexpr size_t kShortName = 3;  // -tp, -ngl
  constexpr std::string_view kBefore = " \t\n\"'[";
  constexpr std::string_view kEmDash = "\u2014";
  constexpr std::string_view kDashes[] = {kEmDash, "\u2013", "\u2212"};
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool begins = at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos;
    if (!begins || !is_mark(text, at, kDashes)) {
      out += text[at];
      continue;
    }
    size_t name = at + kMark;
    const bool two = name < text.size() && (text[name] == '-' || is_mark(text, name, kDashes));
    if (two) name += text[name] == '-' ? 1 : kMark;
    size_t end = name;
    while (end - name <= kShortName && is_letter(text, end)) ++end;
    const bool goes_on = end < text.size() && (text[end] == '-' || text[end] == '_');
    const bool is_short =
        !two && text.compare(at, kMark, kEmDash) != 0 && end - name <= kShortName && !goes_on;
    if (end == name) {
      out += text[at];  // no flag
    } else {
      out += is_short ? "-" : "--";
      at = name - 1;
    }
  }
  return out;
}

/// The length of a terminal's prompt at the beginning of a line: "PS C:\Users\me> ", ">>> ".
size_t prompt_of(std::string_view line) {
  static const std::regex form(
      R"(\s*(?:\(\S{1,40}\)\s+)?(?:PS )?[A-Za-z]:\\[^>]{0,150}>\s*|\s*>>>(?: |$))"
      "|\\s*\u276F\\s+|\\s*\u279C\\s+\\S{1,60}\\s+(?:git:\\(\\S{1,60}\\)\\s+)?"
      R"(|In \[\d{1,6}\]:\s)");
  constexpr size_t kLongest = 200;  // bytes
  const std::string begin(line.substr(0, kLongest));
  std::smatch match;
  const bool found = std::regex_search(begin, match, form, std::regex_constants::match_continuous);
  return found ? static_cast<size_t>(match.length(0)) : 0;
}

/// Leaves out prompts, marks of a quoted mail ("> " before the first line) and Markdown's fences.
std::string without_marks(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_quoted = first != std::string::npos && text.substr(first, 2) == "> ";
  const bool is_session = text.find(">>> ") != std::string::npos;  // of Python
  std::string out;
  for (std::string_view line : split_text(text, "\n")) {
    if (line.starts_with("```")) line = {};
    line.remove_prefix(prompt_of(line));
    const bool is_marked = (is_quoted && line.starts_with("> ")) || line.starts_with("... ");
    if (is_marked && (is_quoted || is_session)) line.remove_prefix(line.find(' ') + 1);
    out.append(line).append("\n");
  }
  out.pop_back();
  return out;
}

/// The text within a pair of quotes or backticks that holds all of it.
std::string unwrapped(std::string text) {
  const std::string_view whole = trimmed(text, " \t\r\n");
  if (whole.size() < 2 || whole.front() != whole.back()) return text;
  const bool wraps = std::string_view("\"'`").find(whole.front()) != std::string_view::npos;
  const std::string_view inside = whole.substr(1, whole.size() - 2);
  constexpr size_t kNone = std::string_view::npos;
  if (!wraps || inside.find(whole.front()) != kNone || inside.find(' ') == kNone) return text;
  return std::string(inside);
}

}  // namespace

std::string plain_text(std::string text) {
  constexpr Replacement kReplacements[] = {
      {"&quot;", "\""}, {"&#34;", "\""},  {"&#39;", "'"},  {"&#x27;", "'"}, {"&apos;", "'"},
      {"&lt;", "<"},    {"&gt;", ">"},    {"&nbsp;", " "}, {"&amp;", "&"},  {"\u00A0", " "},
      {"\u2009", " "},  {"\u202F", " "},  {"\u3000", " "}, {"\u200B", ""},  {"\uFEFF", ""},
      {"\u201C", "\""}, {"\u201D", "\""}, {"\u201E", "\""}};
  for (const Replacement& what : kReplacements) replace_all(text, what);
  return unwrapped(without_marks(with_typed_dashes(with_straight_quotes(text))));
}

}  // namespace plimsoll::cli
