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

Value isprintable(Runtime& runtime, const Value& self, const Args& args) {
  return self.text().empty() ? Value::boolean(true) : every<is_printable>(runtime, self, args);
}

Value isidentifier(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("isidentifier", args, {});
  runtime.charge_characters(self.text().size());
  return Value::boolean(is_identifier(self.text()));
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

Value istitle(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("istitle", args, {});
  const std::string& text = self.text();
  runtime.charge_characters(text.size());
  bool inside = false;
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    if (is_upper(code) || is_title(code)) {
      if (inside) return Value::boolean(false);
      inside = found = true;
    } else if (is_lower(code)) {
      if (!inside) return Value::boolean(false);
    } else {
      inside = false;
    }
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

std::string fill_of(const Value& self, const Bound& args) {
  if (!args.has(1)) return " ";
  if (args[1].is_string() && args[1].as_string().length() != 1) {
    raise("The fill character must be exactly one character long");
  }
  const std::string& fill = args.text(1);
  return self.is_markup() && !args[1].is_markup() ? escape_html(fill) : fill;
}

Int missing_width(Runtime& runtime, const Value& self, Int width) {
  runtime.charge_scan(self.text().size());
  return std::max<Int>(width - static_cast<Int>(self.as_string().length()), 0);
}

Value ljust(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("ljust", args, {"", ""}, 1);
  return padded(runtime, self, 0, missing_width(runtime, self, bound.integer(runtime, 0, 0)),
                fill_of(self, bound));
}
Value rjust(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("rjust", args, {"", ""}, 1);
  return padded(runtime, self, missing_width(runtime, self, bound.integer(runtime, 0, 0)), 0,
                fill_of(self, bound));
}
Value center(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("center", args, {"", ""}, 1);
  return pad_center(runtime, self, bound.integer(runtime, 0, 0), fill_of(self, bound));
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

Value expandtabs(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("expandtabs", args, {"tabsize"});
  const Int size = bound.integer(runtime, 0, 8);
  runtime.check_size(size);
  runtime.charge_characters(self.text().size());
  std::string out;
  Int column = 0;
  for (const char c : self.text()) {
    if (c == '\t') {
      const Int spaces = size > 0 ? size - column % size : 0;
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      out += c;
      column =
          c == '\n' || c == '\r' ? 0 : column + ((static_cast<unsigned char>(c) & 0xC0) != 0x80);
    }
    runtime.check_size(static_cast<Int>(out.size()));
  }
  runtime.charge_copy(out.size());
  return Value::string_like(self, std::move(out));
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

// ---- translate ----

Value code_of(const Value& character) {
  if (character.is_string() && character.as_string().length() == 1) {
    size_t at = 0;
    return Value::integer(static_cast<Int>(next_character(character.text(), at)));
  }
  if (as_index(character)) return character;
  raise("string keys in translate table must be of length 1");
}

Value maketrans(Runtime& runtime, const Value&, const Args& args) {
  const Bound bound("maketrans", args, {"", "", ""}, 1);
  auto [value, table] = new_dict();
  if (!bound.has(1)) {
    if (!bound[0].is(Kind::dict))
      raise("if you give only one argument to maketrans it must be a dict");
    for (const auto& [key, to] : bound[0].as_dict().entries())
      table->set(runtime, code_of(key), to);
    return value;
  }
  const std::vector<Value> from = to_list(runtime, Value::string(bound.text(0)));
  const std::vector<Value> to = to_list(runtime, Value::string(bound.text(1)));
  if (from.size() != to.size()) raise("the first two maketrans arguments must have equal length");
  for (size_t i = 0; i < from.size(); ++i) table->set(runtime, code_of(from[i]), code_of(to[i]));
  if (bound.has(2)) {
    for (const Value& drop : to_list(runtime, Value::string(bound.text(2))))
      table->set(runtime, code_of(drop), Value::none());
  }
  return value;
}

Value translate(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("translate", args, {""}, 1);
  std::string out;
  const std::string& text = self.text();
  for (size_t at = 0; at < text.size();) {
    runtime.charge(1);
    const size_t begin = at;
    const auto to =
        subscript(runtime, bound[0], Value::integer(static_cast<Int>(next_character(text, at))));
    if (!to) {
      out.append(text, begin, at - begin);
    } else if (to->is_string()) {
      out += to->text();
    } else if (const auto code = as_index(*to)) {
      if (*code < 0 || *code > 0x10FFFF) raise("character mapping must be in range(0x110000)");
      append_character(out, static_cast<char32_t>(*code));
    } else if (!to->is_none()) {
      raise("character mapping must return integer, None or str");
    }
    runtime.check_size(static_cast<Int>(out.size()));
  }
  return Value::string_like(self, std::move(out));
}

Value encode(Runtime&, const Value&, const Args&) {
  raise("bytes are not supported in chat templates");
}

constexpr NamedMethod kMethods[] = {
    {"capitalize", mapped<capitalize>},
    {"casefold", mapped<fold_case>},
    {"center", center},
    {"encode", encode},
    {"expandtabs", expandtabs},
    {"format", format_method},
    {"format_map", format_map_method},
    {"isalnum", every<is_alphanumeric>},
    {"isalpha", every<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", every<is_decimal>},
    {"isdigit", every<is_digit>},
    {"isidentifier", isidentifier},
    {"islower", all_of_case<is_lower, is_upper>},
    {"isnumeric", every<is_numeric>},
    {"isprintable", isprintable},
    {"isspace", every<is_space>},
    {"istitle", istitle},
    {"isupper", all_of_case<is_upper, is_lower>},
    {"ljust", ljust},
    {"lower", mapped<to_lower>},
    {"lstrip", stripped<Side::left>},
    {"maketrans", maketrans},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"rjust", rjust},
    {"rstrip", stripped<Side::right>},
    {"strip", stripped<Side::both>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<to_title>},
    {"translate", translate},
    {"upper", mapped<to_upper>},
    {"zfill", zfill},
};

Value markup_escape(Runtime& runtime, const Value&, const Args& args) {
  const Bound bound("escape", args, {""}, 1);
  if (bound[0].is_markup()) return bound[0];
  return Value::markup(escape_html(str(runtime, bound[0])));
}
Value markup_unescape(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("unescape", args, {});
  runtime.charge_characters(self.text().size());
  return Value::string(unescape_html(self.text()));
}
Value markup_striptags(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("striptags", args, {});
  return Value::string(strip_tags(runtime, self.text()));
}

constexpr NamedMethod kMarkupMethods[] = {
    {"escape", markup_escape}, {"unescape", markup_unescape}, {"striptags", markup_striptags}};

}  // namespace

Method find_string_method(std::string_view name, bool markup) {
  if (const Method method = find_string_search_method(name)) return method;
  if (const Method method = look_up(kMethods, name)) return method;
  return markup ? look_up(kMarkupMethods, name) : nullptr;
}

Value pad_center(Runtime& runtime, const Value& self, Int width, const std::string& fill) {
  const Int missing = missing_width(runtime, self, width);
  const Int left = missing / 2 + (missing & width & 1);
  return padded(runtime, self, left, missing - left, fill);
}

}  // namespace plimsoll::text::jinja
