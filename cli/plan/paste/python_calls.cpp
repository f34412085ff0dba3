#include "cli/plan/paste/python_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/split_text.h"
#include "base/trim.h"

namespace plimsoll::cli {

std::string code_of(const std::string& text) {
  std::string code = text;
  const auto blank = [&](size_t from, size_t end) {
    for (size_t i = from; i < std::min(end, code.size()); ++i)
      if (code[i] != '\n') code[i] = ' ';
  };
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const size_t line = std::min(text.find('\n', at), text.size());
    if (c == '#') {
      blank(at, line);
      at = line;
    } else if (c == '"' || c == '\'') {
      const std::string triple(3, c);
      const bool is_long = text.compare(at, 3, triple) == 0;
      size_t end = at + 1;
      if (is_long) {
        end = text.find(triple, at + 3);
        end = end == std::string::npos ? text.size() : end + 2;
      } else {
        while (end < line && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      }
      blank(at + 1, is_long ? end : std::min(end, line));
      at = std::min(end, is_long ? text.size() : line);
    }
  }
  return code;
}

size_t call_of(const std::string& text, const std::string& function) {
  for (size_t at = text.find(function); at != std::string::npos; at = text.find(function, at + 1)) {
    if (at > 0 && is_name_char(text[at - 1])) continue;
    const std::string_view before(text.data(), at);
    if (before.ends_with("class ") || before.ends_with("def ")) continue;
    const size_t open = text.find_first_not_of(" \t", at + function.size());
    if (open != std::string::npos && text[open] == '(') return open + 1;
  }
  return std::string::npos;
}

std::string imported_as(const std::string& code, const std::string& module,
                        const std::string& name) {
  const std::string start = "from " + module;
  constexpr std::string_view kImport = " import";
  constexpr size_t kLongest = 4096;  // bytes of an import
  for (size_t at = code.find(start); at != std::string::npos; at = code.find(start, at + 1)) {
    const std::string_view text = std::string_view(code).substr(at, kLongest);
    if (text.size() > start.size() && is_name_char(text[start.size()])) continue;
    const size_t line = std::min(text.find('\n'), text.size());
    const size_t import = text.substr(0, line).find(kImport);
    if (import == std::string_view::npos) continue;
    const bool several = text.substr(import, line - import).find('(') != std::string_view::npos;
    const size_t end = several ? std::min(text.find(')', import), text.size()) : line;
    const size_t first = import + kImport.size();
    const std::string_view names = text.substr(first, std::max(end, first) - first);
    for (std::string_view one : split_text(names, ",")) {
      one = trimmed(one, " \t\r\n()");
      if (one == name) return name;
      const std::string as = name + " as ";
      if (one.starts_with(as)) return std::string(trimmed(one.substr(as.size()), " "));
    }
  }
  return "";
}

std::string word_of(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

namespace {

/// The name that begins the line of `at`: "args" of "args = parser.parse_args()".
std::string line_name(const std::string& code, size_t at) {
  const NamedValues none;
  return PythonReader(std::string_view(code).substr(code.rfind('\n', at) + 1), none).name();
}

/// The name of what argparse has read, be it what a function returns; empty: nothing is read.
std::string parsed_name(const std::string& code) {
  const size_t call = std::min(code.find(".parse_args("), code.find(".parse_known_args("));
  if (call == std::string::npos) return "";
  std::string name = line_name(code, call);
  const size_t defined = code.rfind("def ", call);
  if (name != "return" || defined == std::string::npos) return name;
  const NamedValues none;
  const std::string function =
      PythonReader(std::string_view(code).substr(defined + 4), none).name();
  const size_t use = call_of(code.substr(call), function);
  return function.empty() || use == std::string::npos ? "" : line_name(code, call + use);
}

/// The defaults of a program's own arguments (argparse).
void add_defaults(const std::string& text, NamedValues& names) {
  constexpr std::string_view kAdds = ".add_argument(";
  constexpr int kMostArguments = 500;
  constexpr size_t kLongest = 4096;  // bytes of an argument
  if (text.find(kAdds) == std::string::npos) return;
  const std::string code = code_of(text);
  const std::string parsed = parsed_name(code);
  size_t at = parsed.empty() ? std::string::npos : code.find(kAdds);
  for (int count = 0; at != std::string::npos && count < kMostArguments; ++count) {
    std::string name;
    Literal value;
    const auto read = [&](const std::string& key, const Literal& given, std::string_view) {
      const std::string word = given && given->is_string() ? given->get<std::string>() : "";
      if (key.empty() && word.starts_with("--") && name.empty()) {
        name = word.substr(2);
      } else if (key == "dest") {
        name = word;
      } else if (key == "default") {
        value = given;
      } else if (key == "action" && word.starts_with("store_") && !value) {
        value = OrderedJson(word == "store_false");
      }
    };
    for_each_argument(text.substr(at + kAdds.size(), kLongest), 0, names, read);
    std::ranges::replace(name, '-', '_');
    if (!name.empty() && value) names[fmt::format("{}.{}", parsed, name)] = *value;
    at = code.find(kAdds, at + 1);
  }
}

}  // namespace

NamedValues assigned(const std::string& text, Variables& variables, Expressions expressions) {
  NamedValues names;
  names.keeps_expressions = expressions == Expressions::kept;
  const std::string_view environ = "os.environ[";
  for (size_t line = 0; line < text.size();) {
    size_t end = std::min(text.find('\n', line), text.size());
    const std::string_view row(text.data() + line, end - line);
    PythonReader start(row, names);  // names and keys stand on one line
    const bool is_variable = row.starts_with(environ);
    if (is_variable) start.at = environ.size();
    const Literal variable = is_variable ? start.argument() : Literal();
    const std::string name = is_variable ? "" : start.name();
    if ((!is_variable || start.take(']')) && start.take('=')) {
      PythonReader reader(text, names);
      reader.at = line + start.at;
      const Literal value = reader.statement();
      if (value && !name.empty()) names[name] = *value;
      if (value && value->is_string() && variable && variable->is_string())
        names.environment[variable->get<std::string>()] = value->get<std::string>();
      if (value) end = std::max(end, std::min(text.find('\n', reader.at), text.size()));
    }
    line = end + 1;
  }
  add_defaults(text, names);
  for (const auto& [name, value] : names.environment) variables[name] = value;
  return names;
}

void for_each_argument(const std::string& text, size_t at, const NamedValues& names,
                       const TakeArgument& take_argument) {
  PythonReader reader(text, names);
  reader.at = at;
  while (reader.at < text.size() && !reader.take(')')) {
    const size_t first = reader.at;
    const bool spreads = reader.take('*') && reader.take('*');  // **options
    std::string name = spreads ? "**" : reader.name();
    if (!spreads && (name.empty() || !reader.take('='))) {
      reader.at = first;
      name.clear();
    }
    const size_t value_at = reader.at;
    const Literal value = reader.argument();
    if (spreads && value && value->is_object()) {
      for (const auto& [key, one] : value->items()) take_argument(key, one, "");
    } else {
      const std::string_view written(text.data() + value_at, reader.at - value_at);
      if (spreads) name += written;
      take_argument(name, value, trimmed(written, " \t\r\n"));
    }
    if (!reader.take(',') && (reader.skip_blank(), reader.at < text.size()) &&
        text[reader.at] != ')') {
      break;
    }
  }
}

}  // namespace plimsoll::cli
