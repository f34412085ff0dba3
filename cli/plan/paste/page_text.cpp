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

/// A single curly quote as "'"; an apostrophe between two letters stays.
void straighten_single_quotes(std::string& text) {
  for (const std::string_view quote : {"\u2018", "\u2019", "\u201A"}) {
    for (size_t at = 0; (at = text.find(quote, at)) != std::string::npos; ++at) {
      if (at > 0 && is_letter(text, at - 1) && is_letter(text, at + quote.size())) continue;
      text.replace(at, quote.size(), "'");
    }
  }
}

/// A dash that a word processor has made of "-" or "--", where a word begins.
void restore_dashes(std::string& text) {
  constexpr size_t kShortName = 3;  // -tp, -ngl
  constexpr std::string_view kBefore = " \t\n\"'[";
  for (const std::string_view dash : {"\u2014", "\u2013", "\u2212"}) {
    for (size_t at = 0; (at = text.find(dash, at)) != std::string::npos; ++at) {
      const bool begins = at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos;
      size_t end = at + dash.size();
      const bool joined = end < text.size() && text[end] == '-';
      if (!begins || !(joined || is_letter(text, end))) continue;
      while (is_letter(text, end)) ++end;
      const bool is_short = dash != "\u2014" && end - at - dash.size() <= kShortName;
      text.replace(at, dash.size(), joined || is_short ? "-" : "--");
    }
  }
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
  straighten_single_quotes(text);
  restore_dashes(text);
  return unwrapped(without_marks(text));
}

}  // namespace plimsoll::cli
