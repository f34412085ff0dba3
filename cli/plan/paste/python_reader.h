// Reads Python's literals in a pasted text.
#pragma once

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {

using Literal = std::optional<OrderedJson>;  // nothing: an expression

/// Values of a program's names. `copied`: bytes that names stood for so far.
struct NamedValues : std::map<std::string, OrderedJson> {
  mutable size_t copied = 0;
};

/// About how many bytes a copy of the value takes.
inline size_t bytes_of(const OrderedJson& value) {
  constexpr size_t kEach = 16;
  size_t bytes = kEach + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
  if (value.is_structured())
    for (const auto& [key, item] : value.items()) bytes += key.size() + bytes_of(item);
  return bytes;
}

/// Reads literals (Python reference, chapter 2.4, and displays); names that were given one count.
/// Throws Error(usage) where names stand for too much.
class PythonReader {
 public:
  PythonReader(std::string_view text, const NamedValues& names) : text_(text), names_(names) {}

  size_t at = 0;

  void skip_blank() {
    while (at < text_.size()) {
      if (text_[at] == '#') {
        at = std::min(text_.find('\n', at), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at])) != 0 || text_[at] == '\\') {
        ++at;
      } else {
        break;
      }
    }
  }

  bool take(char c) {
    skip_blank();
    if (at >= text_.size() || text_[at] != c) return false;
    ++at;
    return true;
  }

  std::string name() {
    skip_blank();
    const size_t first = at;
    while (at < text_.size() && is_name_char(text_[at])) ++at;
    return std::string(text_.substr(first, at - first));
  }

  /// The literal that begins here.
  Literal literal() { return literal(0); }

  /// A value up to "," or a closing bracket; nothing, and the text is passed, for an expression.
  Literal argument() {
    const size_t first = at;
    Literal value = literal();
    skip_blank();
    if (value && at < text_.size() && (text_[at] == ',' || closes(text_[at]))) return value;
    at = first;
    pass_expression();
    return std::nullopt;
  }

 private:
  static constexpr size_t kMostCopied = size_t{1} << 20;
  static constexpr size_t kMostKeys = 4096;  // of a dictionary: each is looked for among all

  static bool closes(char c) { return c == ')' || c == ']' || c == '}'; }

  void pass_expression() {
    int depth = 0;
    for (; at < text_.size(); ++at) {
      const char c = text_[at];
      if (c == '"' || c == '\'') {
        (void)string();
        --at;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth;
      } else if ((closes(c) && depth-- == 0) || (c == ',' && depth == 0)) {
        return;
      }
    }
  }

  Literal literal(int depth) {
    constexpr int kDeepest = 64;
    skip_blank();
    if (at >= text_.size() || depth > kDeepest) return std::nullopt;
    const char c = text_[at];
    if (c == '"' || c == '\'') return strings();
    if (c == '[' || c == '(') return list(c == '[' ? ']' : ')', depth);
    if (c == '{') return object(depth);
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.') return number();
    return named(depth);
  }

  Literal named(int depth) {
    const std::string word = name();
    if (word == "True") return OrderedJson(true);
    if (word == "False") return OrderedJson(false);
    if (word == "None") return OrderedJson(nullptr);
    const bool quote = at < text_.size() && (text_[at] == '"' || text_[at] == '\'');
    if (quote && (word == "r" || word == "u")) return strings();
    if (word == "dict" && take('(')) return keywords(depth + 1);
    const auto known = names_.find(word);
    if (known == names_.end()) return std::nullopt;
    names_.copied += bytes_of(known->second);
    if (names_.copied > kMostCopied)
      fail(ExitCode::usage, "--from: names of the program stand for more than 1 MiB of values");
    return known->second;
  }

  Literal number() {
    const size_t first = at;
    if (text_[at] == '-') ++at;
    while (at < text_.size() && (is_name_char(text_[at]) || text_[at] == '.')) ++at;
    std::string digits(text_.substr(first, at - first));
    std::erase(digits, '_');
    if (digits.starts_with(".")) digits.insert(0, "0");
    if (digits.ends_with(".")) digits += "0";
    try {
      return parse_json<OrderedJson>(digits);
    } catch (const JsonError&) {
      return std::nullopt;
    }
  }

  /// Strings beside each other are one.
  Literal strings() {
    std::string joined;
    while (at < text_.size() && (text_[at] == '"' || text_[at] == '\'')) {
      joined += string();
      skip_blank();
    }
    return OrderedJson(joined);
  }

  std::string string() {
    const char quote = text_[at];
    const std::string triple(3, quote);
    const bool is_triple = text_.substr(at, 3) == triple;
    const std::string end = is_triple ? triple : std::string(1, quote);
    at += end.size();
    std::string value;
    while (at < text_.size() && text_.substr(at, end.size()) != end) {
      if (text_[at] == '\\' && at + 1 < text_.size()) ++at;
      value += text_[at++];
    }
    at = std::min(at + end.size(), text_.size());
    return value;
  }

  Literal list(char end, int depth) {
    ++at;
    OrderedJson items = OrderedJson::array();
    bool comma = end == ']';  // without one, brackets only group
    while (!take(end)) {
      const Literal item = literal(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(*item);
      if (take(',')) {
        comma = true;
      } else if (!take(end)) {
        return std::nullopt;
      } else {
        break;
      }
    }
    return comma ? items : items.empty() ? items : OrderedJson(items[0]);
  }

  Literal object(int depth) {
    ++at;
    OrderedJson items = OrderedJson::object();
    while (!take('}')) {
      const Literal key = literal(depth + 1);
      if (!key || !take(':') || items.size() == kMostKeys) return std::nullopt;
      const Literal value = literal(depth + 1);
      if (!value) return std::nullopt;
      items[key->is_string() ? key->get<std::string>() : key->dump()] = *value;
      if (!take(',') && (skip_blank(), at >= text_.size() || text_[at] != '}')) return std::nullopt;
    }
    return items;
  }

  Literal keywords(int depth) {
    OrderedJson items = OrderedJson::object();
    while (!take(')')) {
      const std::string key = name();
      if (key.empty() || !take('=') || items.size() == kMostKeys) return std::nullopt;
      const Literal value = literal(depth + 1);
      if (!value) return std::nullopt;
      items[key] = *value;
      if (!take(',') && (skip_blank(), at >= text_.size() || text_[at] != ')')) return std::nullopt;
    }
    return items;
  }

  std::string_view text_;
  const NamedValues& names_;
};

}  // namespace plimsoll::cli
