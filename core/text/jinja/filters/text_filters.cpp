// Filters that change or describe one text.
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

constexpr NamedFilter kFilters[] = {
    {"capitalize", capitalize_filter},
    {"center", center},
    {"format", format},
    {"lower", lower},
    {"replace", replace},
    {"string", string},
    {"title", title},
    {"trim", trim},
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
