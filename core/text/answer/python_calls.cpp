// Calls in Python's syntax: [weather(city="Bern", days=3), time()].
#include <array>
#include <charconv>
#include <utility>

#include "text/answer/call_bodies.h"
#include "text/answer/json_reader.h"
#include "text/answer/text_reader.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Reads literals and calls; what is read is written as JSON.
class PythonReader : public TextReader {
 public:
  using TextReader::TextReader;

  std::optional<ToolCall> call() {
    ToolCall call;
    call.name = name(/*dotted=*/true);
    skip_space();
    if (call.name.empty() || !skip("(")) return std::nullopt;
    call.arguments = "{";
    const bool whole = list(")", LastComma::allowed, [&](size_t i) {
      const std::string keyword = name(/*dotted=*/false);
      skip_space();
      if (keyword.empty() || !skip("=")) return false;
      call.arguments += (i > 0 ? ", " : "") + json_quoted(keyword) + ": ";
      skip_space();
      return literal(call.arguments, 0);
    });
    call.arguments += '}';
    return whole ? std::optional(std::move(call)) : std::nullopt;
  }

  bool literal(std::string& out, int depth) {
    const char c = peek();
    if (c == '\'' || c == '"') return string(out);
    if (c == '[') return depth < kMostLevels && sequence(out, "[", "]", depth + 1);
    if (c == '(') return depth < kMostLevels && sequence(out, "(", ")", depth + 1);
    if (c == '{') return depth < kMostLevels && dictionary(out, depth + 1);
    if (is_letter(c)) return word(out);
    return number(out);
  }

 private:
  std::string name(bool dotted) {
    const size_t begin = at_;
    while (is_letter(peek()) ||
           (at_ > begin && (is_decimal(peek()) || (dotted && peek() == '.')))) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  bool word(std::string& out) {
    constexpr std::pair<std::string_view, std::string_view> kWords[] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"},
        {"true", "true"}, {"false", "false"}, {"null", "null"}};
    const std::string found = name(/*dotted=*/false);
    for (const auto& [python, json] : kWords) {
      if (found != python) continue;
      out += json;
      return true;
    }
    return false;
  }

  bool number(std::string& out) {
    std::string text;
    if (skip("-")) {
      text = "-";
    } else {
      skip("+");
    }
    const std::string whole = digits();
    std::string fraction;
    const bool point = skip(".");
    if (point) fraction = digits();
    if (whole.empty() && fraction.empty()) return false;
    if (whole.size() > 1 && whole.front() == '0') return false;
    text += whole.empty() ? "0" : whole;
    if (point) text += "." + (fraction.empty() ? "0" : fraction);
    if (skip("e") || skip("E")) {
      text += 'e';
      if (skip("-")) {
        text += '-';
      } else {
        skip("+");
      }
      const std::string exponent = digits();
      if (exponent.empty()) return false;
      text += exponent;
    }
    out += text;
    return !is_letter(peek());
  }

  std::string digits() {
    const size_t begin = at_;
    while (is_decimal(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  bool sequence(std::string& out, std::string_view open, std::string_view close, int depth) {
    skip(open);
    out += '[';
    const bool whole = list(close, LastComma::allowed, [&](size_t i) {
      if (i > 0) out += ", ";
      return literal(out, depth);
    });
    out += ']';
    return whole;
  }

  bool dictionary(std::string& out, int depth) {
    skip("{");
    out += '{';
    const bool whole = list("}", LastComma::allowed, [&](size_t i) {
      if (i > 0) out += ", ";
      std::string key;
      if (peek() == '{' || peek() == '[' || peek() == '(' || !literal(key, depth)) return false;
      out += key.starts_with('"') ? key : json_quoted(key);
      skip_space();
      if (!skip(":")) return false;
      out += ": ";
      skip_space();
      return literal(out, depth);
    });
    out += '}';
    return whole;
  }

  bool string(std::string& out) {
    const char quote = peek();
    const std::string triple(3, quote);
    const std::string close = skip(triple) ? triple : std::string(1, quote);
    if (close.size() == 1) ++at_;
    std::string content;
    while (!at_end()) {
      if (skip(close)) {
        out += json_quoted(content);
        return true;
      }
      if (peek() != '\\') {
        content += text_[at_++];
      } else if (!escape(content)) {
        return false;
      }
    }
    return false;
  }

  bool escape(std::string& content) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    ++at_;
    if (at_end()) return false;
    const char c = text_[at_++];
    if (c == '\n') return true;
    if (const size_t letter = kLetters.find(c); letter != kNowhere) {
      content += kMeanings[letter];
      return true;
    }
    switch (c) {
      case 'x':
        return code(content, 2);
      case 'u':
        return code(content, 4);
      case 'U':
        return code(content, 8);
      default:
        break;
    }
    content += '\\';
    content += c;
    return true;
  }

  bool code(std::string& content, size_t length) {
    uint32_t value = 0;
    if (!hexadecimal(length, value)) return false;
    // JSON's escapes of two halves occur here too.
    if (value >= 0xD800 && value < 0xDC00 && skip("\\u")) {
      uint32_t low = 0;
      if (!hexadecimal(4, low) || low < 0xDC00 || low > 0xDFFF) return false;
      value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return false;
    append_character(content, value);
    return true;
  }

  bool hexadecimal(size_t length, uint32_t& value) {
    const std::string_view digits = text_.substr(at_, length);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < length || error != std::errc() || end != digits.data() + length) {
      return false;
    }
    at_ += length;
    return true;
  }
};

bool read_call(PythonReader& reader, std::vector<ToolCall>& calls) {
  std::optional<ToolCall> call = reader.call();
  if (!call) return false;
  calls.push_back(std::move(*call));
  return true;
}

/// Reads [call, call].
bool read_list(PythonReader& reader, std::vector<ToolCall>& calls) {
  reader.skip("[");
  return reader.list("]", LastComma::allowed, [&](size_t) { return read_call(reader, calls); });
}

}  // namespace

CallsEnd read_python_calls(const CallText& from, std::vector<ToolCall>& calls) {
  PythonReader reader(from.text, from.at);
  while (true) {
    reader.skip_space();
    if (!from.end.empty() && reader.skip(from.end)) return reader.at();
    if (reader.at_end()) return reader.at();
    const bool read = reader.peek() == '[' ? read_list(reader, calls) : read_call(reader, calls);
    if (!read) return std::nullopt;
  }
}

std::optional<std::string> json_of_literal(std::string_view text) {
  if (std::optional<std::string> json = json_of(text)) return json;
  PythonReader python(text, 0);
  python.skip_space();
  std::string literal;
  if (!python.literal(literal, 0)) return std::nullopt;
  python.skip_space();
  if (!python.at_end()) return std::nullopt;
  return literal;
}

}  // namespace plimsoll::text
