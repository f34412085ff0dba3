// str.format and format specifications.
#include <algorithm>

#include "text/jinja/filters/filters.h"
#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, bool markup, const std::vector<Value>& positional,
              std::function<std::optional<Value>(const std::string&)> named)
      : runtime_(runtime), markup_(markup), positional_(positional), named_(std::move(named)) {}

  std::string run(std::string_view format, int depth = 2) {
    if (depth < 0) raise("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if (c != '{' && c != '}') {
        out += c;
        ++at;
        continue;
      }
      if (at + 1 < format.size() && format[at + 1] == c) {
        out += c;
        at += 2;
        continue;
      }
      if (c == '}') raise("Single '}' encountered in format string");
      out += field(format, ++at, depth);
      runtime_.check_size(static_cast<Int>(out.size()));
    }
    runtime_.charge_copy(out.size());
    return out;
  }

 private:
  // One `{name!conversion:specification}`; `at` is behind its opening brace.
  std::string field(std::string_view format, size_t& at, int depth) {
    runtime_.charge(1);
    const size_t begin = at;
    int nested = 1;
    size_t bracket = 0;
    size_t name_end = std::string_view::npos;
    for (; at < format.size(); ++at) {
      const char c = format[at];
      if (c == '[' && name_end == std::string_view::npos) bracket = 1;
      if (c == ']') bracket = 0;
      if (c == '{') ++nested;
      if (c == '}' && --nested == 0) break;
      if ((c == '!' || c == ':') && name_end == std::string_view::npos && bracket == 0)
        name_end = at;
    }
    if (at >= format.size())
      raise(begin == at ? "Single '{' encountered in format string"
                        : "expected '}' before end of string");
    const std::string_view inside = format.substr(begin, at - begin);
    ++at;
    const size_t split = name_end == std::string_view::npos ? inside.size() : name_end - begin;
    const std::string_view name = inside.substr(0, split);
    if (name.find('{') != std::string_view::npos) raise("unexpected '{' in field name");
    std::string_view rest = inside.substr(split);
    char conversion = 0;
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2) raise("end of string while looking for conversion specifier");
      conversion = rest[1];
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') raise("expected ':' after conversion specifier");
    }
    if (!rest.empty()) rest.remove_prefix(1);
    Value value = look_up_field(name);
    return convert(std::move(value), conversion, run(rest, depth - 1));
  }

  std::string convert(Value value, char conversion, const std::string& specification) {
    if (conversion != 0) {
      if (conversion != 's' && conversion != 'r' && conversion != 'a') {
        raise("Unknown conversion specifier ", std::string(1, conversion));
      }
      value = Value::string(converted(runtime_, value, conversion, Escape::no));
    }
    if (markup_ && value.is_markup()) {
      if (!specification.empty()) raise("Unsupported format specification for Markup.");
      return value.text();
    }
    std::string text = format_value(runtime_, value, specification);
    return markup_ ? escape_html(text) : text;
  }

  // As string.Formatter: only a wholly empty name is numbered automatically, only one of digits
  // counts as manual.
  Value look_up_field(std::string_view name) {
    if (name.empty() || all_digits(name)) return numbered(name);
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, at));
    while (at < name.size()) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) raise("Empty attribute in format string");
        value = get_attribute(runtime_, value, name.substr(at + 1, end - at - 1));
        at = end;
        continue;
      }
      const size_t end = name.find(']', at);
      if (name[at] != '[' || end == std::string_view::npos) raise("Missing ']' in format string");
      value = get_item(runtime_, value, key_of(name.substr(at + 1, end - at - 1)));
      at = end + 1;
      if (at < name.size() && name[at] != '.' && name[at] != '[') {
        raise("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static bool all_digits(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  }
  static Value key_of(std::string_view text) {
    if (text.empty()) raise("Empty attribute in format string");
    return all_digits(text) ? Value::integer(*parse_int(text, 10))
                            : Value::string(std::string(text));
  }

  Value numbered(std::string_view name) {
    const bool automatic = name.empty();
    if (automatic ? manual_ : next_ > 0)
      raise("cannot switch between manual and automatic field numbering");
    manual_ |= !automatic;
    return at_index(automatic ? next_++ : *parse_int(name, 10));
  }

  Value first(std::string_view name) {
    if (all_digits(name)) return at_index(*parse_int(name, 10));
    if (auto value = named_(std::string(name))) return std::move(*value);
    raise(quote(name));
  }

  Value at_index(Int index) const {
    if (index >= static_cast<Int>(positional_.size())) {
      raise("Replacement index ", int_to_string(index), " out of range for positional args tuple");
    }
    return positional_[static_cast<size_t>(index)];
  }

  Runtime& runtime_;
  const bool markup_;
  const std::vector<Value>& positional_;
  std::function<std::optional<Value>(const std::string&)> named_;
  Int next_ = 0;
  bool manual_ = false;
};

FormatSpec parse_specification(const std::string& text) {
  FormatSpec spec;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  if (!text.empty()) {
    size_t after = 0;
    next_character(text, after);
    if (after < text.size() && is_align(text[after])) {
      spec.fill = text.substr(0, after);
      spec.align = text[after];
      at = after + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const bool has_fill = at > 1;
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == 'z') spec.negative_zero = false, ++at;
  if (peek() == '#') spec.alternate = true, ++at;
  if (peek() == '0' && !has_fill) {
    spec.zero = true;
    spec.fill = "0";
    ++at;
  }
  spec.width = read_digits(text, at);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == ',' || peek() == '_') raise("Cannot specify both ',' and '_'.");
  if (peek() == '.') {
    ++at;
    if (peek() < '0' || peek() > '9') raise("Format specifier missing precision");
    spec.precision = read_digits(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) raise("Invalid format specifier");
  return spec;
}

std::string format_string(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 's') {
    raise("Unknown format code '", std::string(1, spec.type), "' for object of type 'str'");
  }
  if (spec.sign != '-') raise("Sign not allowed in string format specifier");
  if (spec.align == '=') raise("'=' alignment not allowed in string format specifier");
  if (spec.grouping != 0) raise("Cannot specify ',' with 's'.");
  if (spec.alternate) raise("Alternate form (#) not allowed in string format specifier");
  std::string text = value.text();
  if (spec.precision >= 0) {
    size_t at = 0;
    for (Int i = 0; i < spec.precision && at < text.size(); ++i) next_character(text, at);
    text.resize(at);
  }
  return pad(runtime, text, spec, '<');
}

}  // namespace

Value format_method(Runtime& runtime, const Value& self, const Args& args) {
  const auto named = [&](const std::string& name) -> std::optional<Value> {
    for (const auto& [key, value] : args.keywords) {
      if (key == name) return value;
    }
    return std::nullopt;
  };
  return Value::string_like(
      self, BraceFormat(runtime, self.is_markup(), args.positional, named).run(self.text()));
}

Value format_map_method(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("format_map", args, {""}, 1);
  const auto named = [&](const std::string& name) {
    return subscript(runtime, bound[0], Value::string(name));
  };
  return Value::string_like(self,
                            BraceFormat(runtime, self.is_markup(), {}, named).run(self.text()));
}

std::string format_value(Runtime& runtime, const Value& value, const std::string& specification) {
  if (specification.empty()) return str(runtime, value);
  const FormatSpec spec = parse_specification(specification);
  if (value.is_string()) return format_string(runtime, value, spec);
  const std::string_view int_types = "bcdoxXn";
  const std::string_view float_types = "eEfFgGn%";
  if (value.is_number()) {
    const bool whole = !value.is(Kind::floating);
    if (whole && (spec.type == 0 || int_types.find(spec.type) != std::string_view::npos)) {
      return format_int(runtime, value.as_int(), spec);
    }
    if (spec.type == 0 || float_types.find(spec.type) != std::string_view::npos) {
      return format_float(runtime, value.as_double(), spec);
    }
    raise("Unknown format code '", std::string(1, spec.type), "' for object of type '",
          type_name(value), "'");
  }
  raise("unsupported format string passed to ", type_name(value), ".__format__");
}

}  // namespace plimsoll::text::jinja
