// Filters around HTML and URLs.
#include <algorithm>

#include "text/jinja/filters/filter_table.h"
#include "text/jinja/filters/methods.h"
#include "text/jinja/filters/urlize.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

Value escaped(Runtime& runtime, const Value& value) {
  if (value.is_markup()) return value;
  std::string text = str(runtime, value);
  runtime.charge_characters(text.size());
  text = escape_html(text);
  runtime.charge_copy(text.size());
  return Value::markup(std::move(text));
}

Value escape(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("escape", args, {});
  return escaped(runtime, subject);
}

Value forceescape(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("forceescape", args, {});
  return escaped(runtime, Value::string(str(runtime, subject)));
}

Value safe(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("safe", args, {});
  return subject.is_markup() ? subject : Value::markup(str(runtime, subject));
}

Value striptags(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("striptags", args, {});
  return Value::string(strip_tags(runtime, str(runtime, subject)));
}

std::string quote_url(Runtime& runtime, const Value& value, bool query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  const std::string text = str(runtime, value);
  runtime.charge_characters(text.size());
  runtime.check_size(static_cast<Int>(text.size()), 3);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        (byte < 0x80 && is_word(byte)) || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out += c;
    } else if (query && c == ' ') {
      out += '+';
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

Value urlencode(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("urlencode", args, {});
  if (subject.is_string() || !Cursor::iterable(subject))
    return Value::string(quote_url(runtime, subject, false));
  const Value pairs =
      subject.is(Kind::dict) ? Value(Kind::view, new View(subject, ViewOf::items)) : subject;
  std::string out;
  Cursor cursor(runtime, pairs);
  for (Value pair; cursor.next(pair);) {
    const std::vector<Value> parts = to_list(runtime, pair);
    if (parts.size() != 2) raise("urlencode needs pairs of key and value");
    if (!out.empty()) out += '&';
    out += quote_url(runtime, parts[0], true) + "=" + quote_url(runtime, parts[1], true);
    runtime.check_size(static_cast<Int>(out.size()));
  }
  return Value::string(std::move(out));
}

Value xmlattr(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("xmlattr", args, {"autospace"});
  if (subject.is_undefined()) fail_undefined(runtime, subject);
  if (!subject.is(Kind::dict)) raise("'", type_name(subject), "' object has no attribute 'items'");
  std::string out;
  for (const auto& [key, value] : subject.as_dict().entries()) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string()) raise("expected string or bytes-like object, got '", type_name(key), "'");
    if (key.text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      raise("Invalid character in attribute name: ", quote(key.text()));
    }
    if (!out.empty()) out += ' ';
    out += escaped(runtime, key).text() + "=\"" + escaped(runtime, value).text() + "\"";
    runtime.check_size(static_cast<Int>(out.size()));
  }
  if (bound.truthy(runtime, 0, true) && !out.empty()) out.insert(0, " ");
  return Value::string(std::move(out));
}

constexpr NamedFilter kFilters[] = {
    {"e", escape},      {"escape", escape},       {"forceescape", forceescape},
    {"safe", safe},     {"striptags", striptags}, {"urlencode", urlencode},
    {"urlize", urlize}, {"xmlattr", xmlattr},
};

}  // namespace

std::span<const NamedFilter> markup_filters() {
  return kFilters;
}

std::string unescape_html(std::string_view text) {
  struct Entity {
    std::string_view name;
    char32_t code;
  };
  static constexpr Entity kEntities[] = {
      {"amp", '&'},      {"lt", '<'},       {"gt", '>'},        {"quot", '"'},
      {"apos", '\''},    {"nbsp", 0xA0},    {"copy", 0xA9},     {"reg", 0xAE},
      {"laquo", 0xAB},   {"raquo", 0xBB},   {"hellip", 0x2026}, {"mdash", 0x2014},
      {"ndash", 0x2013}, {"lsquo", 0x2018}, {"rsquo", 0x2019},  {"ldquo", 0x201C},
      {"rdquo", 0x201D}, {"bull", 0x2022},  {"euro", 0x20AC},   {"times", 0xD7}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '&' ? text.substr(at, 12).find(';') : std::string_view::npos;
    char32_t code = 0;
    if (end != std::string_view::npos) {
      const std::string_view name = text.substr(at + 1, end - 1);
      if (name.starts_with("#")) {
        const bool hex = name.size() > 1 && (name[1] | 32) == 'x';
        const auto number = parse_int(name.substr(hex ? 2 : 1), hex ? 16 : 10);
        if (number && *number > 0 && *number <= 0x10FFFF) code = static_cast<char32_t>(*number);
      } else {
        const auto* entity = std::ranges::find(kEntities, name, &Entity::name);
        if (entity != std::end(kEntities)) code = entity->code;
      }
    }
    if (code != 0) {
      append_character(out, code);
      at += end + 1;
    } else {
      out += text[at++];
    }
  }
  return out;
}

std::string strip_tags(Runtime& runtime, std::string_view text) {
  runtime.charge_characters(text.size());
  const auto without = [](std::string_view from, std::string_view open, std::string_view close) {
    std::string out;
    size_t at = 0;
    while (true) {
      const size_t begin = find_bytes(from, open, at);
      const size_t end = begin == std::string_view::npos ? begin : find_bytes(from, close, begin);
      if (end == std::string_view::npos) return out.append(from.substr(at));
      out.append(from.substr(at, begin - at));
      at = end + close.size();
    }
  };
  const std::string tagless = without(without(text, "<!--", "-->"), "<", ">");
  std::string out;
  for (size_t at = 0; at < tagless.size();) {  // runs of whitespace become one space
    const std::string_view rest = strip(std::string_view(tagless).substr(at), nullptr, Side::left);
    const bool skipped = rest.size() != tagless.size() - at;
    at = tagless.size() - rest.size();
    if (rest.empty()) break;
    if (skipped && !out.empty()) out += ' ';
    const size_t begin = at;
    next_character(tagless, at);
    out.append(tagless, begin, at - begin);
  }
  return unescape_html(out);
}

}  // namespace plimsoll::text::jinja
