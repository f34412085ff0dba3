// str methods that search, split and join.
#include <algorithm>

#include "text/jinja/filters/methods.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

// Bytes of self[start:end], as the optional arguments of find, count, startswith select them.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  bool valid = true;  // false: start lies behind the end, nothing is found, not even ''
};

Window window(Runtime& runtime, const Value& self, const Bound& args) {
  const String& text = self.as_string();
  Window result{0, text.text.size(), true};
  if (!args.given(1) && !args.given(2)) return result;
  runtime.charge_scan(text.text.size());
  const Int length = static_cast<Int>(text.length());
  const auto clip = [&](size_t index, Int fallback) {
    if (!args.given(index)) return fallback;
    Int at = args.integer(runtime, index, 0);
    if (at < 0) at = std::max<Int>(at + length, 0);
    return at;
  };
  const Int start = clip(1, 0);
  const Int end = std::min(clip(2, length), length);
  if (start > end) return {0, 0, false};
  result.begin = byte_offset(text, static_cast<size_t>(start));
  result.end = byte_offset(text, static_cast<size_t>(end));
  return result;
}

enum class From : uint8_t { left, right };

// Code point index of the match, or -1.
Int search(Runtime& runtime, const Value& self, const Args& args, From from,
           std::string_view name) {
  const Bound bound(name, args, {"", "", ""}, 1);
  const std::string& needle = bound.text(0);
  const Window in = window(runtime, self, bound);
  if (!in.valid) return -1;
  runtime.charge_scan(self.text().size() + needle.size());
  const std::string_view text = std::string_view(self.text()).substr(in.begin, in.end - in.begin);
  const size_t at = from == From::left ? find_bytes(text, needle) : rfind_bytes(text, needle);
  if (at == std::string_view::npos) return -1;
  return static_cast<Int>(code_point_index(self.as_string(), in.begin + at));
}

Value find(Runtime& runtime, const Value& self, const Args& args) {
  return Value::integer(search(runtime, self, args, From::left, "find"));
}
Value rfind(Runtime& runtime, const Value& self, const Args& args) {
  return Value::integer(search(runtime, self, args, From::right, "rfind"));
}
Value index(Runtime& runtime, const Value& self, const Args& args) {
  const Int at = search(runtime, self, args, From::left, "index");
  if (at < 0) raise("substring not found");
  return Value::integer(at);
}
Value rindex(Runtime& runtime, const Value& self, const Args& args) {
  const Int at = search(runtime, self, args, From::right, "rindex");
  if (at < 0) raise("substring not found");
  return Value::integer(at);
}

size_t occurrences(std::string_view text, std::string_view needle) {
  if (needle.empty()) return count_code_points(text) + 1;
  size_t count = 0;
  for (size_t at = find_bytes(text, needle); at != std::string_view::npos;
       at = find_bytes(text, needle, at + needle.size())) {
    ++count;
  }
  return count;
}

Value count(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("count", args, {"", "", ""}, 1);
  const std::string& needle = bound.text(0);
  const Window in = window(runtime, self, bound);
  runtime.charge_scan(self.text().size());
  if (!in.valid) return Value::integer(0);
  const std::string_view text = std::string_view(self.text()).substr(in.begin, in.end - in.begin);
  const size_t found = occurrences(text, needle);
  runtime.charge(found / 8);
  return Value::integer(static_cast<Int>(found));
}

Value affix(Runtime& runtime, const Value& self, const Args& args, bool prefix) {
  const std::string_view name = prefix ? "startswith" : "endswith";
  const Bound bound(name, args, {"", "", ""}, 1);
  const Window in = window(runtime, self, bound);
  const std::string_view text = std::string_view(self.text()).substr(in.begin, in.end - in.begin);
  const auto matches = [&](const Value& part) {
    if (!part.is_string()) {
      raise(name, " first arg must be str or a tuple of str, not ", type_name(part));
    }
    runtime.charge_scan(part.text().size());
    return in.valid && (prefix ? text.starts_with(part.text()) : text.ends_with(part.text()));
  };
  if (!bound[0].is(Kind::tuple)) return Value::boolean(matches(bound[0]));
  return Value::boolean(std::ranges::any_of(bound[0].items(), matches));
}
Value startswith(Runtime& runtime, const Value& self, const Args& args) {
  return affix(runtime, self, args, true);
}
Value endswith(Runtime& runtime, const Value& self, const Args& args) {
  return affix(runtime, self, args, false);
}

Value replace(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("replace", args, {"", "", ""}, 2);
  return replace_text(runtime, self, bound.text(0), bound.text(1), bound.integer(runtime, 2, -1));
}

Value join(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("join", args, {""}, 1);
  return join_text(runtime, self, bound[0]);
}

// ---- splitting ----

std::vector<std::string_view> split_spaces(std::string_view text, Int most) {
  std::vector<std::string_view> parts;
  text = strip(text, nullptr, Side::left);
  while (!text.empty()) {
    if (most == 0) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    for (size_t at = 0; at < text.size(); end = at) {
      if (is_space(next_character(text, at))) break;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), nullptr, Side::left);
    --most;
  }
  return parts;
}

std::vector<std::string_view> rsplit_spaces(std::string_view text, Int most) {
  std::vector<std::string_view> parts;
  text = strip(text, nullptr, Side::right);
  while (!text.empty()) {
    if (most == 0) {
      parts.push_back(text);
      break;
    }
    size_t begin = text.size();
    for (size_t at = text.size(); at > 0; begin = at) {
      if (is_space(previous_code_point(text, at))) break;
    }
    parts.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), nullptr, Side::right);
    --most;
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       Int most) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  for (; most != 0; --most) {
    const size_t at = find_bytes(text, separator, from);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

std::vector<std::string_view> rsplit_at(std::string_view text, std::string_view separator,
                                        Int most) {
  if (most < 0) {
    // Splits from the right differ from those from the left only where separators overlap.
    most = static_cast<Int>(text.size());
  }
  std::vector<std::string_view> parts;
  for (; most != 0; --most) {
    const size_t at = rfind_bytes(text, separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::ranges::reverse(parts);
  return parts;
}

Value pieces(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts) {
  runtime.charge(parts.size() * 2);
  runtime.check_elements(static_cast<Int>(parts.size()));
  std::vector<Value> values;
  values.reserve(parts.size());
  for (const std::string_view part : parts)
    values.push_back(Value::string_like(self, std::string(part)));
  return Value::list(std::move(values));
}

Value split_from(Runtime& runtime, const Value& self, const Args& args, From from) {
  const Bound bound(from == From::left ? "split" : "rsplit", args, {"sep", "maxsplit"});
  const Int most = bound.integer(runtime, 1, -1);
  runtime.charge_scan(self.text().size());
  if (!bound.given(0)) {
    runtime.charge_characters(self.text().size());
    return pieces(
        runtime, self,
        from == From::left ? split_spaces(self.text(), most) : rsplit_spaces(self.text(), most));
  }
  if (!bound[0].is_string()) raise("must be str or None, not ", type_name(bound[0]));
  const std::string& separator = bound.text(0);
  if (separator.empty()) raise("empty separator");
  if (from == From::right) runtime.charge_characters(self.text().size());
  return pieces(runtime, self,
                from == From::left ? split_at(self.text(), separator, most)
                                   : rsplit_at(self.text(), separator, most));
}
Value split(Runtime& runtime, const Value& self, const Args& args) {
  return split_from(runtime, self, args, From::left);
}
Value rsplit(Runtime& runtime, const Value& self, const Args& args) {
  return split_from(runtime, self, args, From::right);
}

Value splitlines(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("splitlines", args, {"keepends"});
  const bool keep = bound.truthy(0);
  return Value::list(split_lines(runtime, self, keep ? LineEnds::keep : LineEnds::drop));
}

Value partition_from(Runtime& runtime, const Value& self, const Args& args, From from) {
  const Bound bound("partition", args, {""}, 1);
  const std::string& separator = bound.text(0);
  if (separator.empty()) raise("empty separator");
  runtime.charge_scan(self.text().size());
  const std::string& text = self.text();
  const size_t at = from == From::left ? find_bytes(text, separator) : rfind_bytes(text, separator);
  const Value nothing = Value::string_like(self, {});
  const auto part = [&](std::string piece) { return Value::string_like(self, std::move(piece)); };
  if (at == std::string::npos) {
    return from == From::left ? Value::tuple({self, nothing, nothing})
                              : Value::tuple({nothing, nothing, self});
  }
  return Value::tuple(
      {part(text.substr(0, at)), part(separator), part(text.substr(at + separator.size()))});
}
Value partition(Runtime& runtime, const Value& self, const Args& args) {
  return partition_from(runtime, self, args, From::left);
}
Value rpartition(Runtime& runtime, const Value& self, const Args& args) {
  return partition_from(runtime, self, args, From::right);
}

constexpr NamedMethod kMethods[] = {
    {"count", count},
    {"endswith", endswith},
    {"find", find},
    {"index", index},
    {"join", join},
    {"partition", partition},
    {"replace", replace},
    {"rfind", rfind},
    {"rindex", rindex},
    {"rpartition", rpartition},
    {"rsplit", rsplit},
    {"split", split},
    {"splitlines", splitlines},
    {"startswith", startswith},
};

}  // namespace

Method find_string_search_method(std::string_view name) {
  return look_up(kMethods, name);
}

Value replace_text(Runtime& runtime, const Value& self, const std::string& old,
                   const std::string& with, Int count) {
  const std::string& text = self.text();
  runtime.charge_scan(text.size());
  Int found = static_cast<Int>(occurrences(text, old));
  if (count >= 0) found = std::min(found, count);
  if (found == 0) return self;
  runtime.charge(static_cast<uint64_t>(found) / 8);
  runtime.check_size(found * static_cast<Int>(with.size()) + static_cast<Int>(text.size()) -
                     found * static_cast<Int>(old.size()));
  std::string out;
  size_t from = 0;
  for (Int i = 0; i < found; ++i) {
    size_t at = 0;
    if (old.empty()) {  // before every code point and at the end
      at = from;
      if (i > 0) next_character(text, at);
    } else {
      at = find_bytes(text, old, from);
    }
    out.append(text, from, at - from);
    out += with;
    from = at + old.size();
  }
  out.append(text, from);
  runtime.charge_copy(out.size());
  return Value::string_like(self, std::move(out));
}

Value join_text(Runtime& runtime, const Value& separator, const Value& items) {
  if (!Cursor::iterable(items)) raise("can only join an iterable");
  std::string out;
  Cursor cursor(runtime, items);
  size_t index = 0;
  for (Value item; cursor.next(item); ++index) {
    if (index > 0) out += separator.text();
    if (!item.is_string()) {
      raise("sequence item ", std::to_string(index), ": expected str instance, ", type_name(item),
            " found");
    }
    out += item.text();
    runtime.check_size(static_cast<Int>(out.size()));
  }
  runtime.charge_copy(out.size());
  return Value::string_like(separator, std::move(out));
}

std::vector<Value> split_lines(Runtime& runtime, const Value& self, LineEnds ends) {
  const std::string& text = self.text();
  runtime.charge_characters(text.size());
  std::vector<Value> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    size_t after = begin;
    while (after < text.size()) {
      end = after;
      const char32_t code = next_character(text, after);
      if (is_line_end(code)) {
        if (code == '\r' && after < text.size() && text[after] == '\n') ++after;
        break;
      }
      end = after;
    }
    lines.push_back(Value::string_like(
        self, text.substr(begin, (ends == LineEnds::keep ? after : end) - begin)));
    begin = after;
  }
  runtime.charge(lines.size());
  runtime.check_elements(static_cast<Int>(lines.size()));
  return lines;
}

}  // namespace plimsoll::text::jinja
