// str.format and format specifications.
#include <algorithm>

#include "text/jinja/filters/filters.h"
#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

std::string format_value(Runtime& runtime, const Value& value, const std::string& specification);

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Args& args) : runtime_(runtime), args_(args) {}

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
    for (int open = 1; at < format.size(); ++at) {
      open += format[at] == '{' ? 1 : format[at] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (at >= format.size()) raise("expected '}' before end of string");
    const std::string_view inside = format.substr(begin, at++ - begin);
    const size_t name_end = std::min(inside.find_first_of("!:"), inside.size());
    std::string_view rest = inside.substr(name_end);
    Value value = look_up_field(inside.substr(0, name_end));
    if (rest.starts_with('!')) {
      if (!rest.starts_with("!s") && !rest.starts_with("!r"))
        raise("Unknown conversion specifier ", rest.substr(1));
      value = Value::string(rest[1] == 's' ? str(runtime_, value) : repr(runtime_, value));
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':') raise("expected ':' after conversion specifier");
    if (!rest.empty()) rest.remove_prefix(1);
    return format_value(runtime_, value, run(rest, depth - 1));
  }

  Value look_up_field(std::string_view name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, at));
    while (at < name.size()) {
      const bool item = name[at] == '[';
      if (!item && name[at] != '.')
        raise("Only '.' or '[' may follow ']' in format field specifier");
      const size_t end =
          item ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
      if (end == std::string_view::npos) raise("Missing ']' in format string");
      const std::string_view key = name.substr(at + 1, end - at - 1);
      if (key.empty()) raise("Empty attribute in format string");
      value = item ? get_item(runtime_, value, key_of(key)) : get_attribute(runtime_, value, key);
      at = end + (item ? 1 : 0);
    }
    return value;
  }

  static bool all_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  }
  static Value key_of(std::string_view text) {
    return all_digits(text) ? Value::integer(*parse_int(text, 10))
                            : Value::string(std::string(text));
  }

  // The argument that a field names: by number, by name, or the next one.
  Value argument(std::string_view name) {
    const auto& positional = args_.positional;
    if (name.empty() || all_digits(name)) {
      if (name.empty() ? manual_ : next_ > 0)
        raise("cannot switch between manual and automatic field numbering");
      manual_ |= !name.empty();
      const Int index = name.empty() ? next_++ : *parse_int(name, 10);
      if (index < static_cast<Int>(positional.size()))
        return positional[static_cast<size_t>(index)];
      raise("Replacement index ", int_to_string(index), " out of range for positional args tuple");
    }
    for (const auto& [key, value] : args_.keywords) {
      if (key == name) return value;
    }
    raise(quote(name));
  }

  Runtime& runtime_;
  const Args& args_;
  Int next_ = 0;
  bool manual_ = false;
};

FormatSpec parse_specification(const std::string& text) {
  FormatSpec spec;
  size_t at = 0;
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  next_character(text, at);
  if (is_align(peek())) {
    spec.fill = text.substr(0, at);
    spec.align = text[at++];
  } else {
    at = is_align(text[0]) ? 1 : 0;
    if (at == 1) spec.align = text[0];
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '0' && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_digits(text, at);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    if (++at >= text.size() || text[at] < '0' || text[at] > '9')
      raise("Format specifier missing precision");
    spec.precision = read_digits(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) raise("Invalid format specifier");
  return spec;
}

std::string format_value(Runtime& runtime, const Value& value, const std::string& specification) {
  if (specification.empty()) return str(runtime, value);
  const FormatSpec spec = parse_specification(specification);
  const auto takes = [&](std::string_view types) {
    return spec.type == 0 || types.find(spec.type) != std::string_view::npos;
  };
  if (value.is_string() && takes("s") && spec.sign == '-' && spec.grouping == 0)
    return format_text(runtime, value.text(), spec, '<');
  if (value.is_number() && !value.is(Kind::floating) && takes("bdoxX"))
    return format_int(runtime, value.as_int(), spec);
  if (value.is_number() && takes("eEfFgG%")) return format_float(runtime, value.as_double(), spec);
  raise("Invalid format specifier '", specification, "' for object of type '", type_name(value),
        "'");
}

}  // namespace

Value format_method(Runtime& runtime, const Value& self, const Args& args) {
  return Value::string_like(self, BraceFormat(runtime, args).run(self.text()));
}

}  // namespace plimsoll::text::jinja
