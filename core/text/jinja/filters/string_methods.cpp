// str methods on case, padding and classes of characters.
#include <algorithm>

#include "text/jinja/filters/methods.h"
#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

template <std::string (*Map)(std::string_view)>
Value mapped(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("str method", args, {});
  runtime.charge_characters(self.text().size());
  std::string text = Map(self.text());
  runtime.charge_copy(text.size());
  return Value::string_like(self, std::move(text));
}

template <Side Where>
Value stripped(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("strip", args, {""});
  if (bound.given(0) && !bound[0].is_string()) raise("strip arg must be None or str");
  const std::string* chars = bound.given(0) ? &bound.text(0) : nullptr;
  if (chars != nullptr) runtime.charge_characters(chars->size());
  const std::string_view rest = strip(self.text(), chars, Where);
  runtime.charge_characters(self.text().size() - rest.size());
  if (rest.size() == self.text().size()) return self;
  runtime.charge_copy(rest.size());
  return Value::string_like(self, std::string(rest));
}

// Whether the text is not empty and every code point belongs to the class.
template <bool (*Belongs)(char32_t)>
Value every(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("str method", args, {});
  const std::string& text = self.text();
  runtime.charge_characters(text.size());
  for (size_t at = 0; at < text.size();) {
    if (!Belongs(next_character(text, at))) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}

bool is_alphanumeric(char32_t code) {
  return is_alpha(code) || is_numeric(code);
}

Value isascii(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("isascii", args, {});
  runtime.charge_scan(self.text().size());
  return Value::boolean(self.as_string().ascii());
}

// Some cased character, and none of the other case.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Value all_of_case(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("str method", args, {});
  const std::string& text = self.text();
  runtime.charge_characters(text.size());
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    if (Other(code) || is_title(code)) return Value::boolean(false);
    found |= Wanted(code);
  }
  return Value::boolean(found);
}

// ---- padding ----

Value padded(Runtime& runtime, const Value& self, Int left, Int right, const std::string& fill) {
  runtime.check_size(left + right, static_cast<Int>(fill.size()));
  std::string out;
  for (Int i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (Int i = 0; i < right; ++i) out += fill;
  runtime.charge_copy(out.size());
  return Value::string_like(self, std::move(out));
}

std::string fill_of(const Bound& args) {
  if (!args.has(1)) return " ";
  if (args[1].is_string() && args[1].as_string().length() != 1) {
    raise("The fill character must be exactly one character long");
  }
  return args.text(1);
}

Int missing_width(Runtime& runtime, const Value& self, Int width) {
  runtime.charge_scan(self.text().size());
  return std::max<Int>(width - static_cast<Int>(self.as_string().length()), 0);
}

Value ljust(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("ljust", args, {"", ""}, 1);
  return padded(runtime, self, 0, missing_width(runtime, self, bound.integer(runtime, 0, 0)),
                fill_of(bound));
}
Value rjust(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("rjust", args, {"", ""}, 1);
  return padded(runtime, self, missing_width(runtime, self, bound.integer(runtime, 0, 0)), 0,
                fill_of(bound));
}
Value center(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("center", args, {"", ""}, 1);
  return pad_center(runtime, self, bound.integer(runtime, 0, 0), fill_of(bound));
}

Value zfill(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("zfill", args, {""}, 1);
  const Int missing = missing_width(runtime, self, bound.integer(runtime, 0, 0));
  runtime.check_size(missing);
  std::string text = self.text();
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  text.insert(sign, static_cast<size_t>(missing), '0');
  runtime.charge_copy(text.size());
  return Value::string_like(self, std::move(text));
}

Value removeprefix(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("removeprefix", args, {""}, 1);
  runtime.charge_copy(self.text().size());
  if (!self.text().starts_with(bound.text(0))) return self;
  return Value::string_like(self, self.text().substr(bound.text(0).size()));
}
Value removesuffix(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("removesuffix", args, {""}, 1);
  runtime.charge_copy(self.text().size());
  if (!self.text().ends_with(bound.text(0))) return self;
  return Value::string_like(self, self.text().substr(0, self.text().size() - bound.text(0).size()));
}

constexpr NamedMethod kMethods[] = {
    {"capitalize", mapped<capitalize>},
    {"center", center},
    {"format", format_method},
    {"isalnum", every<is_alphanumeric>},
    {"isalpha", every<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", every<is_decimal>},
    {"isdigit", every<is_digit>},
    {"islower", all_of_case<is_lower, is_upper>},
    {"isnumeric", every<is_numeric>},
    {"isspace", every<is_space>},
    {"isupper", all_of_case<is_upper, is_lower>},
    {"ljust", ljust},
    {"lower", mapped<to_lower>},
    {"lstrip", stripped<Side::left>},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"rjust", rjust},
    {"rstrip", stripped<Side::right>},
    {"strip", stripped<Side::both>},
    {"title", mapped<to_title>},
    {"upper", mapped<to_upper>},
    {"zfill", zfill},
};

}  // namespace

Method find_string_method(std::string_view name) {
  const Method method = find_string_search_method(name);
  return method ? method : look_up(kMethods, name);
}

Value pad_center(Runtime& runtime, const Value& self, Int width, const std::string& fill) {
  const Int missing = missing_width(runtime, self, width);
  const Int left = missing / 2 + (missing & width & 1);
  return padded(runtime, self, left, missing - left, fill);
}

}  // namespace plimsoll::text::jinja
