// printf-style formatting: format % values.
#include <algorithm>

#include "text/jinja/filters/filters.h"
#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

class Percent {
 public:
  Percent(Runtime& runtime, const Value& format, const Value& values)
      : runtime_(runtime), format_(format.text()), markup_(format.is_markup()), values_(values) {}

  std::string run() {
    std::string out;
    for (size_t at = 0; at < format_.size();) {
      const size_t mark = format_.find('%', at);
      out.append(format_, at, mark == std::string::npos ? mark : mark - at);
      if (mark == std::string::npos) break;
      at = mark + 1;
      out += directive(at);
      runtime_.check_size(static_cast<Int>(out.size()));
    }
    if (values_.is(Kind::tuple) ? used_ < values_.items().size() : used_ == 0 && !is_mapping()) {
      raise("not all arguments converted during string formatting");
    }
    runtime_.charge_copy(out.size());
    return out;
  }

 private:
  [[nodiscard]] bool is_mapping() const {
    return !values_.is(Kind::tuple) && !values_.is_string() &&
           (values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::range) ||
            values_.is_undefined());
  }

  Value next_value() {
    if (!values_.is(Kind::tuple)) {
      if (used_++ > 0) raise("not enough arguments for format string");
      return values_;
    }
    if (used_ >= values_.items().size()) raise("not enough arguments for format string");
    return values_.items()[used_++];
  }

  Int star_or_int(size_t& at) {
    if (at >= format_.size() || format_[at] != '*') return read_digits(format_, at);
    ++at;
    const auto value = as_index(next_value());
    if (!value) raise("* wants int");
    return std::clamp<Int>(*value, -INT64_MAX, INT64_MAX);
  }

  std::string directive(size_t& at) {
    runtime_.charge(1);
    FormatSpec spec;
    Value value;
    if (at < format_.size() && format_[at] == '(') value = named(at);
    for (; at < format_.size() &&
           std::string_view("-+ #0").find(format_[at]) != std::string_view::npos;
         ++at) {
      switch (format_[at]) {
        case '-':
          spec.align = '<';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          spec.zero = true;
          break;
        default:
          if (spec.sign != '+') spec.sign = format_[at];
      }
    }
    spec.width = star_or_int(at);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (at < format_.size() && format_[at] == '.') {
      ++at;
      spec.precision = std::max<Int>(star_or_int(at), 0);
    }
    while (at < format_.size() &&
           std::string_view("hlL").find(format_[at]) != std::string_view::npos)
      ++at;
    if (at >= format_.size()) raise("incomplete format");
    spec.type = format_[at++];
    if (spec.type == '%') return "%";
    if (value.is(Kind::missing)) value = next_value();
    return convert(value, spec);
  }

  Value named(size_t& at) {
    if (!is_mapping()) raise("format requires a mapping");
    int depth = 1;
    const size_t begin = ++at;
    for (; at < format_.size() && depth > 0; ++at)
      depth += format_[at] == '(' ? 1 : format_[at] == ')' ? -1 : 0;
    if (depth > 0) raise("incomplete format key");
    const Value key = Value::string(format_.substr(begin, at - 1 - begin));
    const auto found = subscript(runtime_, values_, key);
    if (!found) raise(repr(runtime_, key));
    used_ = std::max<size_t>(used_, 1);
    return *found;
  }

  std::string convert(const Value& value, FormatSpec& spec) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text =
            converted(runtime_, value, spec.type, markup_ ? Escape::html : Escape::no);
        if (spec.precision >= 0) truncate(text, spec.precision);
        return pad(runtime_, text, spec, '>');
      }
      case 'c':
        return character(value, spec);
      case 'd':
      case 'i':
      case 'u':
        spec.type = 'd';
        return integer(
            value.is(Kind::floating) ? Value::integer(float_to_int(value.as_double())) : value,
            spec);
      case 'o':
      case 'x':
      case 'X':
        return integer(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (value.is_undefined()) fail_undefined(runtime_, value);
        if (!value.is_number()) raise("must be real number, not ", type_name(value));
        if (spec.zero && spec.align == 0) spec.fill = "0";
        if (spec.fill == "0") spec.align = '=';
        return format_float(runtime_, value.as_double(), spec);
      default:
        raise("unsupported format character '", std::string(1, spec.type), "'");
    }
  }

  std::string integer(const Value& value, FormatSpec& spec) {
    if (value.is_undefined()) fail_undefined(runtime_, value);
    const auto number = as_index(value);
    if (!number)
      raise("%", std::string(1, spec.type), " format: a real number is required, not ",
            type_name(value));
    FormatSpec plain = spec;
    plain.precision = -1;
    plain.width = 0;
    plain.align = 0;
    std::string text = format_int(runtime_, *number, plain);
    const size_t sign = text.find_first_of("0123456789abcdefABCDEF");
    const size_t prefix = sign + (spec.alternate && spec.type != 'd' ? 2 : 0);
    const Int zeros = spec.precision - static_cast<Int>(text.size() - prefix);
    runtime_.check_size(zeros);
    if (zeros > 0) text.insert(prefix, static_cast<size_t>(zeros), '0');
    if (spec.zero && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    return pad(runtime_, text, spec, '>', prefix);
  }

  std::string character(const Value& value, const FormatSpec& spec) {
    std::string text;
    if (value.is_string() && value.as_string().length() == 1) {
      text = value.text();
    } else if (const auto code = as_index(value)) {
      if (*code < 0 || *code > 0x10FFFF) raise("%c arg not in range(0x110000)");
      append_character(text, static_cast<char32_t>(*code));
    } else {
      raise("%c requires int or char");
    }
    return pad(runtime_, text, spec, '>');
  }

  static void truncate(std::string& text, Int code_points) {
    size_t at = 0;
    for (Int i = 0; i < code_points && at < text.size(); ++i) next_character(text, at);
    text.resize(at);
  }

  Runtime& runtime_;
  const std::string& format_;
  const bool markup_;
  const Value& values_;
  size_t used_ = 0;
};

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& values) {
  return Value::string_like(format, Percent(runtime, format, values).run());
}

}  // namespace plimsoll::text::jinja
