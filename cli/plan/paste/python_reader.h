// Reads Python's literals in a pasted text.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {

using Literal = std::optional<OrderedJson>;  // nothing: an expression

/// Values of a program's names, "args.model" among them. `environment`: variables that it sets.
/// `keeps_expressions`: an f-string is a text where not all of its expressions are known, with "$"
/// before these. `copied`: bytes that names stood for so far.
struct NamedValues : std::map<std::string, OrderedJson> {
  Variables environment;
  bool keeps_expressions = false;
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

/// Reads literals (Python reference, chapter 2.4, and displays); names that were given one count,
/// as do f-strings of these, int(...) and its like, and os.getenv(NAME, DEFAULT). Throws
/// Error(usage) where names stand for too much.
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

  /// The value of an assignment, up to the end of its line; nothing for an expression.
  Literal statement() {
    if (skip_spaces(); ends_statement()) return std::nullopt;
    const Literal value = literal();
    skip_spaces();
    return ends_statement() ? value : std::nullopt;
  }

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

  void skip_spaces() { at = std::min(text_.find_first_not_of(" \t\r", at), text_.size()); }
  [[nodiscard]] bool ends_statement() const {
    return at >= text_.size() || text_[at] == '\n' || text_[at] == '#' || text_[at] == ';';
  }

  static bool names_class(const std::string& name) {
    return !name.empty() && std::isupper(static_cast<unsigned char>(name[0])) != 0;
  }
  static bool names_float(std::string_view name) {
    constexpr std::string_view kFloats[] = {"float16", "half", "bfloat16", "float32", "float"};
    return std::ranges::find(kFloats, name) != std::end(kFloats);
  }

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
    if (c == '"' || c == '\'') return strings("");
    if (c == '[' || c == '(') return list(c == '[' ? ']' : ')', depth);
    if (c == '{') return object(depth);
    return product(depth);
  }

  Literal named(int depth) {
    const std::string word = name();
    if (word == "True") return OrderedJson(true);
    if (word == "False") return OrderedJson(false);
    if (word == "None") return OrderedJson(nullptr);
    if (at_quote() && is_prefix(word)) return strings(word);
    std::string owner, last = word;
    while (at < text_.size() && text_[at] == '.' && !last.empty()) {
      ++at;
      owner = std::exchange(last, name());
    }
    // An object of a class is its fields: CompilationConfig(mode=3).
    if ((last == "dict" || names_class(last)) && take('(')) {
      const Literal fields = keywords(depth + 1);
      const bool empty =
          fields && fields->empty() && last != "dict";  // perhaps no object of fields
      return empty ? std::nullopt : fields;
    }
    const bool asks = last == "getenv" || (owner == "environ" && last == "get");
    if (asks && take('(')) return variable(depth + 1);
    if (owner.empty() && is_conversion(word) && take('(')) return converted(word, depth + 1);
    if (word == "torch" && names_float(last)) return OrderedJson(last);  // dtype=torch.float16
    if (names_class(owner)) return OrderedJson(last);                    // CUDAGraphMode.NONE
    const auto known = names_.find(owner.empty() ? word : owner + "." + last);
    return known != names_.end() ? Literal(copied(known->second)) : std::nullopt;
  }

  /// The value of a name. Counts its bytes, because names of names may double them each time.
  [[nodiscard]] OrderedJson copied(OrderedJson value) const {
    names_.copied += bytes_of(value);
    if (names_.copied > kMostCopied)
      fail(ExitCode::usage, "--from: names of the program stand for more than 1 MiB of values");
    return value;
  }

  /// The rest of os.getenv(NAME, DEFAULT): what the program gave the variable, else the default.
  Literal variable(int depth) {
    const Literal name = literal(depth);
    const Literal otherwise = take(',') ? literal(depth) : Literal();
    if (!name || !name->is_string() || !take(')')) return std::nullopt;
    const auto given = names_.environment.find(name->get<std::string>());
    return given != names_.environment.end() ? Literal(copied(given->second)) : otherwise;
  }

  static bool is_conversion(std::string_view name) {
    return name == "int" || name == "float" || name == "str";
  }
  /// The rest of int(VALUE), float(VALUE) or str(VALUE).
  Literal converted(std::string_view type, int depth) {
    Literal value = literal(depth);
    if (!value || !take(')') || value->is_structured() || value->is_null()) return std::nullopt;
    const bool is_text = value->is_string();
    if (type == "str") return is_text ? *value : OrderedJson(value->dump());
    if (!is_text) return value;
    const std::string text = value->get<std::string>();
    PythonReader reader(text, names_);
    const Literal parsed = reader.power(depth);
    reader.skip_blank();
    return parsed && parsed->is_number() && reader.at == text.size() ? parsed : std::nullopt;
  }

  /// 4 * 1024, 2**15 and 4 * 2**10; nothing beyond 2^53.
  Literal product(int depth) {
    Literal value = power(depth);
    while (value && value->is_number() && take_operator("*")) {
      const Literal factor = power(depth);
      value = exact(*value, factor, [](double a, double b) { return a * b; });
    }
    return value;
  }
  Literal power(int depth) {
    const bool minus = at < text_.size() && text_[at] == '-';
    if (minus) ++at;
    Literal value = operand(depth);
    if (value && value->is_number() && take_operator("**"))
      value = exact(*value, operand(depth), [](double a, double b) { return std::pow(a, b); });
    return minus && value ? exact(-1, value, [](double a, double b) { return a * b; }) : value;
  }
  Literal operand(int depth) {
    if (at >= text_.size()) return std::nullopt;
    const bool digit = std::isdigit(static_cast<unsigned char>(text_[at])) != 0;
    return digit || text_[at] == '.' ? number() : named(depth);
  }
  bool take_operator(std::string_view sign) {
    const size_t behind = text_.find_first_not_of(" \t", at);
    if (behind == std::string_view::npos || !text_.substr(behind).starts_with(sign)) return false;
    at = behind + sign.size();
    skip_spaces();
    return true;
  }
  /// The operator's result as a whole number, where both sides and it are whole.
  template <typename F>
  static Literal exact(const OrderedJson& left, const Literal& right, F&& apply) {
    constexpr double kMost = 0x1p53;
    if (!right || !right->is_number()) return std::nullopt;
    const double result = apply(left.get<double>(), right->get<double>());
    if (!(std::abs(result) <= kMost)) return std::nullopt;
    if (!left.is_number_integer() || !right->is_number_integer() || result != std::floor(result))
      return OrderedJson(result);
    return OrderedJson(static_cast<int64_t>(result));
  }

  Literal number() {
    const size_t first = at;
    if (at >= text_.size()) return std::nullopt;
    while (at < text_.size() && (is_name_char(text_[at]) || text_[at] == '.')) ++at;
    std::string digits(text_.substr(first, at - first));
    std::erase(digits, '_');
    if (digits.starts_with(".")) digits.insert(0, "0");
    if (digits.ends_with(".")) digits += "0";
    try {
      const OrderedJson value = parse_json<OrderedJson>(digits);
      return value.is_number() ? Literal(value) : std::nullopt;
    } catch (const JsonError&) {
      return std::nullopt;
    }
  }

  [[nodiscard]] bool at_quote() const {
    return at < text_.size() && (text_[at] == '"' || text_[at] == '\'');
  }
  static bool is_prefix(std::string_view letters) {
    return letters.size() <= 2 && letters.find_first_not_of("rRuUfF") == std::string_view::npos;
  }

  /// The strings that begin here, of which the first has this prefix. Strings beside each other are
  /// one.
  Literal strings(std::string prefix) {
    std::string joined;
    while (true) {
      const bool formatted = prefix.find_first_of("fF") != std::string::npos;
      const std::string text = string(prefix.find_first_of("rR") != std::string::npos);
      const std::optional<std::string> one = formatted ? filled(text) : text;
      if (!one) return std::nullopt;
      joined += *one;
      const size_t behind = at;
      prefix = name();
      if (at_quote() && is_prefix(prefix)) continue;
      at = behind;
      return OrderedJson(joined);
    }
  }

  /// True where what follows an f-string's expression leaves its value as it is.
  static bool keeps_value(std::string_view expression, size_t behind) {
    constexpr std::string_view kFormats[] = {"", "!r", "!s", ":d", ":s"};
    return std::ranges::find(kFormats, expression.substr(behind)) != std::end(kFormats);
  }

  /// The text of an f-string with the values of its expressions; nothing where one is not known.
  [[nodiscard]] std::optional<std::string> filled(const std::string& text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool twice = i + 1 < text.size() && text[i + 1] == text[i];
      if ((text[i] != '{' && text[i] != '}') || twice) {
        out += text[i];
        i += twice && (text[i] == '{' || text[i] == '}') ? 1 : 0;
        continue;
      }
      const size_t end = std::min(text.find('}', i), text.size());
      const std::string expression = text.substr(i + 1, std::max(end, i + 1) - i - 1);
      PythonReader reader(expression, names_);
      const Literal value = reader.literal();
      const bool known = value && !value->is_structured() && keeps_value(expression, reader.at);
      if (!known && !names_.keeps_expressions) return std::nullopt;
      out += !known               ? "$" + expression
             : value->is_string() ? value->get<std::string>()
                                  : value->dump();
      i = end;
    }
    return out;
  }

  /// What a character behind a backslash stands for; a line's end stands for nothing.
  static std::string escaped(char c) {
    if (c == '\n') return "";
    if (c == 'n') return "\n";
    if (c == 't') return "\t";
    return {c};
  }

  std::string string(bool is_raw = false) {
    const char quote = text_[at];
    const std::string triple(3, quote);
    const bool is_triple = text_.substr(at, 3) == triple;
    const std::string end = is_triple ? triple : std::string(1, quote);
    at += end.size();
    std::string value;
    while (at < text_.size() && text_.substr(at, end.size()) != end) {
      if (text_[at] == '\\' && at + 1 < text_.size()) {
        value += is_raw ? std::string(text_.substr(at, 2)) : escaped(text_[at + 1]);
        at += 2;
      } else {
        value += text_[at++];
      }
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
