// Filters that indent, wrap and shorten texts.
#include <algorithm>

#include "text/jinja/filters/filter_table.h"
#include "text/jinja/filters/methods.h"
#include "text/jinja/filters/regex.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/pretty.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

void require_text(Runtime& runtime, const Value& subject) {
  if (subject.is_undefined()) fail_undefined(runtime, subject);
  if (!subject.is_string()) raise("expected a string, got ", type_name(subject));
}

Value indent(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  require_text(runtime, subject);
  std::string indention;
  if (bound.has(0) && bound[0].is_string()) {
    indention = bound.text(0);
  } else {
    const Int width = std::max<Int>(bound.integer(runtime, 0, 4), 0);
    runtime.check_size(width);
    indention.assign(static_cast<size_t>(width), ' ');
  }
  const bool first = bound.truthy(runtime, 1, false);
  const bool blank = bound.truthy(runtime, 2, false);
  const std::vector<Value> lines =
      split_lines(runtime, Value::string_like(subject, subject.text() + "\n"), false);
  std::string out = first ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      if (blank || !lines[i].text().empty()) out += indention;
    }
    out += lines[i].text();
    runtime.check_size(static_cast<Int>(out.size()));
  }
  runtime.charge_copy(out.size());
  return Value::string_like(subject, std::move(out));
}

Value truncate(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const Int length = bound.integer(runtime, 0, 255);
  const Value end = bound.get(2, Value::string("..."));
  if (!end.is_string()) raise("expected a string, got ", type_name(end));
  const Int leeway = bound.given(3) ? bound.integer(runtime, 3, 5) : 5;
  const Int end_length = static_cast<Int>(end.as_string().length());
  if (length < end_length)
    raise("expected length >= ", int_to_string(end_length), ", got ", int_to_string(length));
  if (leeway < 0) raise("expected leeway >= 0, got ", int_to_string(leeway));
  if (static_cast<Int>(require_length(runtime, subject)) - leeway <= length) return subject;
  require_text(runtime, subject);
  Value kept =
      slice(runtime, subject, Value::none(), Value::integer(length - end_length), Value::none());
  if (!bound.truthy(runtime, 1, false)) {
    const size_t space = kept.text().rfind(' ');
    if (space != std::string::npos)
      kept = Value::string_like(subject, kept.text().substr(0, space));
  }
  return binary(runtime, Op::add, kept, end);
}

// ---- textwrap ----

// How Python's textwrap cuts a line into words and spaces, with and without cuts behind hyphens.
constexpr const char* kWords =
    R"re([\t\n\x0b\x0c\r ]+|(?<=[\w!"'&.,?])-{2,}(?=\w)|[^\t\n\x0b\x0c\r ]+?(?:)re"
    R"re(-(?:(?<=[^\d\W]{2}-)|(?<=[^\d\W]-[\w!"'&.,?]-))(?=[^\d\W]-?[^\d\W]))re"
    R"re(|(?=[\t\n\x0b\x0c\r ]|\z)|(?<=[\w!"'&.,?])(?=-{2,}\w)))re";
constexpr const char* kSpaces = R"re([\t\n\x0b\x0c\r ]+|[^\t\n\x0b\x0c\r ]+)re";

std::vector<std::string> chunks_of(const std::string& line, bool on_hyphens) {
  static const Regex words(kWords);
  static const Regex spaces(kSpaces);
  const Regex& regex = on_hyphens ? words : spaces;
  std::vector<std::string> chunks;
  for (size_t at = 0; at < line.size();) {
    const auto found = regex.find(line, at);
    if (!found) {
      chunks.push_back(line.substr(at));
      break;
    }
    const auto [begin, end] = *found;
    if (begin > at) chunks.push_back(line.substr(at, begin - at));
    if (end > begin) chunks.push_back(line.substr(begin, end - begin));
    at = std::max(end, at + 1);
  }
  return chunks;
}

struct Wrap {
  Int width;
  bool break_long_words;
  bool break_on_hyphens;
};

// The first `room` code points of a word that is too long; after a hyphen if there is one.
std::string take_part(std::string& word, Int room, const Wrap& wrap) {
  size_t end = 0;
  for (Int i = 0; i < room && end < word.size(); ++i) next_character(word, end);
  if (wrap.break_on_hyphens && static_cast<Int>(count_code_points(word)) > room) {
    const size_t hyphen = std::string_view(word).substr(0, end).rfind('-');
    const bool only_hyphens = hyphen == std::string::npos ||
                              word.substr(0, hyphen).find_first_not_of('-') == std::string::npos;
    if (hyphen != std::string::npos && hyphen > 0 && !only_hyphens) end = hyphen + 1;
  }
  std::string part = word.substr(0, end);
  word.erase(0, end);
  return part;
}

bool blank(const std::string& text) {
  return strip(text, nullptr, Side::both).empty();
}

std::vector<std::string> wrap_line(Runtime& runtime, const std::string& line, const Wrap& wrap) {
  std::vector<std::string> chunks = chunks_of(line, wrap.break_on_hyphens);
  std::ranges::reverse(chunks);
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    runtime.charge(2);
    std::vector<std::string> current;
    Int length = 0;
    if (!lines.empty() && blank(chunks.back())) chunks.pop_back();
    while (!chunks.empty()) {
      const Int size = static_cast<Int>(count_code_points(chunks.back()));
      if (length + size > wrap.width) break;
      current.push_back(std::move(chunks.back()));
      chunks.pop_back();
      length += size;
    }
    if (!chunks.empty() && static_cast<Int>(count_code_points(chunks.back())) > wrap.width) {
      runtime.charge_copy(chunks.back().size());
      if (wrap.break_long_words) {
        current.push_back(take_part(chunks.back(), std::max<Int>(wrap.width - length, 1), wrap));
        if (chunks.back().empty()) chunks.pop_back();
      } else if (current.empty()) {
        current.push_back(std::move(chunks.back()));
        chunks.pop_back();
      }
    }
    if (!current.empty() && blank(current.back())) current.pop_back();
    if (current.empty()) continue;
    std::string joined;
    for (const auto& chunk : current) joined += chunk;
    lines.push_back(std::move(joined));
  }
  return lines;
}

Value wordwrap(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("wordwrap", args,
                    {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  require_text(runtime, subject);
  const Wrap wrap{bound.integer(runtime, 0, 79), bound.truthy(runtime, 1, true),
                  bound.truthy(runtime, 3, true)};
  if (wrap.width <= 0) raise("invalid width ", int_to_string(wrap.width), " (must be > 0)");
  const std::string between = bound.given(2) ? bound.text(2) : "\n";
  runtime.charge_characters(subject.text().size() * 16);
  std::string out;
  bool first = true;
  for (const Value& line : split_lines(runtime, subject, false)) {
    const std::vector<std::string> parts = wrap_line(runtime, line.text(), wrap);
    for (size_t i = 0; i < std::max<size_t>(parts.size(), 1); ++i) {
      if (!first) out += between;
      first = false;
      if (i < parts.size()) out += parts[i];
      runtime.check_size(static_cast<Int>(out.size()));
    }
  }
  return Value::string(std::move(out));
}

Value pprint(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("pprint", args, {});
  return Value::string(pretty(runtime, subject));
}

constexpr NamedFilter kFilters[] = {
    {"indent", indent}, {"pprint", pprint}, {"truncate", truncate}, {"wordwrap", wordwrap}};

}  // namespace

std::span<const NamedFilter> layout_filters() {
  return kFilters;
}

}  // namespace plimsoll::text::jinja
