// printf-style formatting: format % values.
#include <algorithm>

#include "text/jinja/filters/filters.h"
#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
namespace {

class Percent {
 public:
  Percent(Runtime& runtime, const std::string& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {}

  std::string run() {
    std::string out;
    for (size_t at = 0; at < format_.size();) {
      const size_t mark = std::min(format_.find('%', at), format_.size());
      out.append(format_, at, mark - at);
      if (mark == format_.size()) break;
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
    return values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::range) ||
           values_.is_undefined();
  }
  [[nodiscard]] char peek(size_t at) const { return at < format_.size() ? format_[at] : '\0'; }

  Value next_value() {
    const size_t count = values_.is(Kind::tuple) ? values_.items().size() : 1;
    if (used_ >= count) raise("not enough arguments for format string");
    const size_t index = used_++;
    return values_.is(Kind::tuple) ? values_.items()[index] : values_;
  }

  // The text for the directive behind a '%', which begins at `at`; moves `at` behind it.
  std::string directive(size_t& at) {
    runtime_.charge(1);
    Value value;
    if (peek(at) == '(') value = named(at);
    FormatSpec spec;
    bool zero = false;
    for (;; ++at) {
      const char flag = peek(at);
      if (flag == '-') {
        spec.align = '<';
      } else if (flag == '0') {
        zero = true;
      } else if (flag == '+' || (flag == ' ' && spec.sign != '+')) {
        spec.sign = flag;
      } else if (flag != ' ' && flag != '#') {
        break;
      }
    }
    spec.width = read_digits(format_, at);
    if (peek(at) == '.') spec.precision = read_digits(format_, ++at);
    if (at >= format_.size()) raise("incomplete format");
    spec.type = format_[at++];
    if (spec.type == '%') return "%";
    if (value.is(Kind::missing)) value = next_value();
    return convert(value, spec, zero);
  }

  Value named(size_t& at) {
    if (!is_mapping()) raise("format requires a mapping");
    const size_t end = format_.find(')', at);
    if (end == std::string::npos) raise("incomplete format key");
    const Value key = Value::string(format_.substr(at + 1, end - at - 1));
    at = end + 1;
    const auto found = subscript(runtime_, values_, key);
    if (!found) raise(repr(runtime_, key));
    used_ = std::max<size_t>(used_, 1);
    return *found;
  }

  std::string convert(const Value& value, FormatSpec& spec, bool zero) {
    const std::string_view all = "srdiuxXeEfFgG";
    const size_t kind = all.find(spec.type);
    if (kind == std::string_view::npos)
      raise("unsupported format character '", std::string(1, spec.type), "'");
    if (kind < 2) {
      return format_text(runtime_, kind == 0 ? str(runtime_, value) : repr(runtime_, value), spec,
                         '>');
    }
    if (value.is_undefined()) fail_undefined(runtime_, value);
    if (!value.is_number()) {
      raise("%", std::string(1, spec.type), " format: a real number is required, not ",
            type_name(value));
    }
    if (zero && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    if (kind >= all.find('e')) return format_float(runtime_, value.as_double(), spec);
    return integer(value, spec);
  }

  // A precision is the least number of digits.
  std::string integer(const Value& value, FormatSpec& spec) {
    const Int number = value.is(Kind::floating) ? float_to_int(value.as_double()) : value.as_int();
    if (spec.precision < 0) return format_int(runtime_, number, spec);
    FormatSpec digits;
    digits.type = spec.type;
    digits.sign = spec.sign;
    digits.fill = "0";
    digits.align = '=';
    digits.width = std::exchange(spec.precision, -1) + (number < 0 || spec.sign != '-' ? 1 : 0);
    return format_text(runtime_, format_int(runtime_, number, digits), spec, '>');
  }

  Runtime& runtime_;
  const std::string& format_;
  const Value& values_;
  size_t used_ = 0;
};

}  // namespace

Value format_percent(Runtime& runtime, const Value& format, const Value& values) {
  return Value::string_like(format, Percent(runtime, format.text(), values).run());
}

}  // namespace plimsoll::text::jinja
