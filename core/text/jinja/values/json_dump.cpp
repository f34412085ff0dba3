#include "text/jinja/values/json_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

struct Style {
  bool ascii = false;
  bool sorted = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const Style& style) : runtime_(runtime), style_(style) {}

  std::string run(const Value& value) {
    write(value, 0);
    runtime_.charge_copy(out_.size());
    return std::move(out_);
  }

 private:
  void write(const Value& value, size_t level) {
    runtime_.charge(1);
    runtime_.check_size(static_cast<Int>(out_.size()));
    switch (value.kind()) {
      case Kind::none:
        out_ += "null";
        break;
      case Kind::boolean:
        out_ += value.as_bool() ? "true" : "false";
        break;
      case Kind::integer:
        out_ += int_to_string(value.as_int());
        break;
      case Kind::floating:
        out_ += number(value.as_double());
        break;
      case Kind::string:
        write_string(value.text());
        break;
      case Kind::list:
      case Kind::tuple:
        write_list(value.items(), level + 1);
        break;
      case Kind::dict:
        write_dict(value.as_dict(), level + 1);
        break;
      default:
        raise("Object of type ", type_name(value), " is not JSON serializable");
    }
  }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_to_string(value);
  }

  void write_string(const std::string& text) {
    runtime_.charge_characters(text.size());
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char c = text[at];
      if (static_cast<unsigned char>(c) < 0x80) {
        ++at;
        write_ascii(c);
        continue;
      }
      const char32_t code = next_character(text, at);
      if (style_.ascii) {
        write_escaped(code);
      } else {
        out_.append(text, begin, at - begin);
      }
    }
    out_ += '"';
  }

  void write_ascii(char c) {
    static constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
    static constexpr std::string_view kLetters = "\"\\bfnrt";
    if (const size_t letter = kShort.find(c); letter != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[letter];
    } else if (static_cast<unsigned char>(c) < 0x20 || (style_.ascii && c == 0x7F)) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out_ += c;
    }
  }

  void write_escaped(char32_t code) {
    if (code >= 0x10000) {
      const auto rest = static_cast<uint32_t>(code - 0x10000);
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    }
  }

  void new_line(size_t level) {
    if (!style_.indent) return;
    runtime_.check_size(static_cast<Int>(out_.size() + level * style_.indent->size()));
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void write_list(const std::vector<Value>& items, size_t level) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level);
      write(items[i], level);
    }
    if (!items.empty()) new_line(level - 1);
    out_ += ']';
  }

  std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return key.text();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.as_bool() ? "true" : "false";
      case Kind::integer:
        return int_to_string(key.as_int());
      case Kind::floating:
        return number(key.as_double());
      default:
        raise("keys must be str, int, float, bool or None, not ", type_name(key));
    }
  }

  void write_dict(const Dict& dict, size_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sorted) {
      std::ranges::stable_sort(entries, [&](const auto* a, const auto* b) {
        return less(runtime_, a->first, b->first);
      });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level);
      write_string(key_text(entries[i]->first));
      out_ += style_.key_separator;
      write(entries[i]->second, level);
    }
    if (!entries.empty()) new_line(level - 1);
    out_ += '}';
  }

  Runtime& runtime_;
  const Style& style_;
  std::string out_;
};

}  // namespace

Value to_json(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Style style;
  style.ascii = bound.truthy(0);
  style.sorted = bound.truthy(3);
  if (bound.given(1)) {
    if (bound[1].is_string()) {
      style.indent = bound[1].text();
    } else {
      const Int width = std::max<Int>(bound.integer(runtime, 1, 0), 0);
      runtime.check_size(width);
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
    style.item_separator = ",";
  }
  if (bound.given(2)) {
    if (!bound[2].is_sequence() || bound[2].items().size() != 2 ||
        !bound[2].items()[0].is_string() || !bound[2].items()[1].is_string()) {
      raise("separators must be a pair of strings");
    }
    style.item_separator = bound[2].items()[0].text();
    style.key_separator = bound[2].items()[1].text();
  }
  return Value::string(JsonWriter(runtime, style).run(subject));
}

}  // namespace plimsoll::text::jinja
