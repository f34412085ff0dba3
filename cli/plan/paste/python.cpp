// LLM(model="...", tensor_parallel_size=2): a call whose arguments are Python literals; and those
// of vLLM's log, "non-default args: {'model': '...'}".
#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/split_text.h"
#include "cli/plan/paste/pasted_launch.h"
#include "plan/log/vllm_log.h"

namespace plimsoll::cli {
namespace {

using Literal = std::optional<OrderedJson>;  // nothing: an expression
using NamedValues = std::map<std::string, OrderedJson>;

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Reads literals (Python reference, chapter 2.4, and displays); names that were given one count.
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
    return known == names_.end() ? std::nullopt : Literal(known->second);
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
      if (!key || !take(':')) return std::nullopt;
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
      if (key.empty() || !take('=')) return std::nullopt;
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

/// The place where the arguments of the first call of `function` begin; npos: it is not called.
size_t call_of(const std::string& text, const std::string& function) {
  for (size_t at = text.find(function); at != std::string::npos; at = text.find(function, at + 1)) {
    if (at > 0 && is_name_char(text[at - 1])) continue;
    const size_t open = text.find_first_not_of(" \t", at + function.size());
    if (open != std::string::npos && text[open] == '(') return open + 1;
  }
  return std::string::npos;
}

/// NAME = literal and os.environ["NAME"] = "VALUE", each at the beginning of a line.
NamedValues assigned(const std::string& text, Variables& variables) {
  NamedValues names;
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    const std::string row = text.substr(line, end - line) + "\n,";  // behind a comment too
    PythonReader reader(row, names);
    const std::string environ = "os.environ[";
    const bool is_variable = row.starts_with(environ);
    if (is_variable) reader.at = environ.size();
    const Literal variable = is_variable ? reader.argument() : Literal();
    const std::string name = is_variable ? "" : reader.name();
    if ((!is_variable || reader.take(']')) && reader.take('=')) {
      const Literal value = reader.argument();
      if (value && !name.empty()) names[name] = *value;
      if (value && value->is_string() && variable && variable->is_string())
        variables[variable->get<std::string>()] = value->get<std::string>();
    }
    line = end + 1;
  }
  return names;
}

/// tensor_parallel_size=2 as --tensor-parallel-size 2.
void add_flag(const std::string& name, const OrderedJson& value, Words& words) {
  if (value.is_null()) return;
  std::string flag = name;
  std::ranges::replace(flag, '_', '-');
  if (name == "model") {
    words.insert(words.begin(), value.is_string() ? value.get<std::string>() : value.dump());
  } else if (value.is_boolean()) {
    words.push_back((value.get<bool>() ? "--" : "--no-") + flag);
  } else {
    words.push_back("--" + flag);
    words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
}

void add_argument(const std::string& name, const Literal& value, PastedLaunch& launch) {
  if (value) {
    add_flag(name, *value, launch.words);
  } else {
    launch.left_out.push_back(name + " (not a literal)");
  }
}

/// True when a line of the text imports the module, or names of it.
bool imports(const std::string& text, const std::string& module) {
  for (std::string_view line : split_text(text, "\n")) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t>"), line.size()));
    if (line.starts_with("import " + module) || line.starts_with("from " + module)) return true;
  }
  return false;
}

}  // namespace

std::optional<PastedLaunch> launch_of_python(const std::string& text) {
  PastedLaunch launch;
  launch.usage = vllm::Usage::offline;
  size_t at = std::string::npos;
  for (const char* function : {"LLM", "AsyncEngineArgs", "EngineArgs"})
    if (at == std::string::npos) at = call_of(text, function);
  if (at == std::string::npos) return std::nullopt;
  if (imports(text, "tensorrt_llm")) {
    fail(ExitCode::usage,
         "--from: a call of TensorRT-LLM's LLM(...) is not read; state its fields to plan --engine "
         "tensorrt-llm MODEL --engine-args JSON");
  }
  const NamedValues names = assigned(text, launch.variables);
  PythonReader reader(text, names);
  reader.at = at;
  while (reader.at < text.size() && !reader.take(')')) {
    const size_t first = reader.at;
    std::string name = reader.name();
    if (name.empty() || !reader.take('=')) {
      reader.at = first;
      name = "model";
    }
    add_argument(name, reader.argument(), launch);
    if (!reader.take(',') && (reader.skip_blank(), reader.at < text.size()) &&
        text[reader.at] != ')') {
      break;
    }
  }
  return launch;
}

std::optional<PastedLaunch> launch_of_log(const std::string& text) {
  const std::string mark = "non-default args: {";
  const size_t start = text.find(mark);
  if (start == std::string::npos) return std::nullopt;
  PastedLaunch launch;
  const std::string release = plan::read_vllm_log(text).version;
  if (!release.empty()) launch.releases["vllm"] = release;
  const NamedValues none;
  PythonReader reader(text, none);
  reader.at = start + mark.size();
  bool serves = std::min(text.find("API server"), text.find("APIServer")) < start;
  bool has_model = false;
  do {
    const Literal name = reader.literal();
    if (!name || !name->is_string() || !reader.take(':')) break;
    const Literal value = reader.argument();
    const bool tag = *name == "model_tag";  // `vllm serve MODEL`, which is `model` too
    serves |= tag;
    const bool model = tag || *name == "model";
    if (!model || !has_model)
      add_argument(model ? "model" : name->get<std::string>(), value, launch);
    has_model |= model;
  } while (reader.take(','));
  launch.usage = serves ? vllm::Usage::server : vllm::Usage::offline;
  return launch;
}

}  // namespace plimsoll::cli
