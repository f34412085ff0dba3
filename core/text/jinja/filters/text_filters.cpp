// Filters on one text.
#include <algorithm>

#include "text/jinja/filters/filter_table.h"
#include "text/jinja/filters/methods.h"
#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

// A method of str as a filter on anything.
Value by_method(Runtime& runtime, const Value& subject, const Args& args, std::string_view method) {
  const Value text = soft_string(runtime, subject);
  return find_method(text, method)(runtime, text, args);
}
Value capitalize_filter(Runtime& runtime, const Value& subject, const Args& args) {
  return by_method(runtime, subject, args, "capitalize");
}
Value lower(Runtime& runtime, const Value& subject, const Args& args) {
  return by_method(runtime, subject, args, "lower");
}
Value upper(Runtime& runtime, const Value& subject, const Args& args) {
  return by_method(runtime, subject, args, "upper");
}

Value trim(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("trim", args, {"chars"});
  return by_method(runtime, subject, bound.has(0) ? Args{{bound[0]}, {}} : Args{}, "strip");
}

Value string(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("string", args, {});
  return soft_string(runtime, subject);
}

Value center(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("center", args, {"width"});
  return pad_center(runtime, soft_string(runtime, subject), bound.integer(runtime, 0, 80), " ");
}

Value replace(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const Int count = bound.given(2) ? bound.integer(runtime, 2, -1) : -1;
  const Value text = Value::string(str(runtime, subject));
  return replace_text(runtime, text, str(runtime, bound[0]), str(runtime, bound[1]), count);
}

Value format(Runtime& runtime, const Value& subject, const Args& args) {
  if (!args.positional.empty() && !args.keywords.empty()) {
    raise("can't handle positional and keyword arguments at the same time");
  }
  const Value text = soft_string(runtime, subject);
  if (args.keywords.empty()) return format_percent(runtime, text, Value::tuple(args.positional));
  auto [values, dict] = new_dict();
  for (const auto& [name, value] : args.keywords) dict->set(runtime, Value::string(name), value);
  return format_percent(runtime, text, values);
}

// Words begin after whitespace, hyphens and opening brackets.
Value title(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("title", args, {});
  const std::string text = str(runtime, subject);
  runtime.charge_characters(text.size() * 2);
  const auto separates = [](char32_t code) {
    return is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' ||
           code == '<';
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const bool separator = separates(next_character(text, at));
    const size_t head = at;
    while (at < text.size()) {
      size_t after = at;
      if (separates(next_character(text, after)) != separator) break;
      at = after;
    }
    out += to_upper(std::string_view(text).substr(begin, head - begin));
    out += to_lower(std::string_view(text).substr(head, at - head));
  }
  return Value::string(std::move(out));
}

Value wordcount(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("wordcount", args, {});
  const std::string text = str(runtime, subject);
  runtime.charge_characters(text.size());
  Int words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const bool word = is_word(next_character(text, at));
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

const Value& require_text(Runtime& runtime, const Value& subject) {
  if (subject.is_undefined()) fail_undefined(runtime, subject);
  if (!subject.is_string()) raise("expected a string, got ", type_name(subject));
  return subject;
}

// The `width` of indent: a text, or a number of spaces.
std::string indention_of(Runtime& runtime, const Bound& args) {
  if (args.has(0) && args[0].is_string()) return args.text(0);
  const Int width = std::max<Int>(args.integer(runtime, 0, 4), 0);
  runtime.check_size(width);
  return std::string(static_cast<size_t>(width), ' ');
}

Value indent(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  const Value text = Value::string(require_text(runtime, subject).text() + "\n");
  const std::string indention = indention_of(runtime, bound);
  const bool blank = bound.truthy(2);
  std::string out = bound.truthy(1) ? indention : "";
  bool begun = false;
  for (const Value& line : split_lines(runtime, text, LineEnds::drop)) {
    if (begun) out += '\n';
    if (begun && (blank || !line.text().empty())) out += indention;
    begun = true;
    out += line.text();
    runtime.check_size(static_cast<Int>(out.size()));
  }
  runtime.charge_copy(out.size());
  return Value::string_like(subject, std::move(out));
}

Value truncate(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const Int length = bound.integer(runtime, 0, 255);
  const Value end = bound.get(2, Value::string("..."));
  const Int end_length = static_cast<Int>(require_text(runtime, end).as_string().length());
  const Int leeway = bound.given(3) ? bound.integer(runtime, 3, 5) : 5;
  if (length < end_length)
    raise("expected length >= ", int_to_string(end_length), ", got ", int_to_string(length));
  if (leeway < 0) raise("expected leeway >= 0, got ", int_to_string(leeway));
  if (static_cast<Int>(require_length(runtime, subject)) - leeway <= length) return subject;
  require_text(runtime, subject);
  Value kept =
      slice(runtime, subject, Value::none(), Value::integer(length - end_length), Value::none());
  const size_t space = kept.text().rfind(' ');
  if (!bound.truthy(1) && space != std::string::npos)
    kept = Value::string_like(subject, kept.text().substr(0, space));
  return binary(runtime, Op::add, kept, end);
}

// ---- Markup: what `safe` and `escape` make is escaped no more, and escapes what is added to it
// ----

Value safe(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("safe", args, {});
  return subject.is_markup() ? subject : Value::markup(str(runtime, subject));
}

Value escape(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("escape", args, {});
  if (subject.is_markup()) return subject;
  std::string text = str(runtime, subject);
  runtime.charge_characters(text.size());
  text = escape_html(text);
  runtime.charge_copy(text.size());
  return Value::markup(std::move(text));
}

constexpr NamedFilter kFilters[] = {
    {"capitalize", capitalize_filter},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"format", format},
    {"indent", indent},
    {"lower", lower},
    {"replace", replace},
    {"safe", safe},
    {"string", string},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", upper},
    {"wordcount", wordcount},
};

}  // namespace

std::span<const NamedFilter> text_filters() {
  return kFilters;
}

Value soft_string(Runtime& runtime, const Value& value) {
  return value.is_string() ? value : Value::string(str(runtime, value));
}

}  // namespace plimsoll::text::jinja
