#include "cli/plan/paste/python_calls.h"

#include <algorithm>

#include "base/split_text.h"

namespace plimsoll::cli {

size_t call_of(const std::string& text, const std::string& function) {
  for (size_t at = text.find(function); at != std::string::npos; at = text.find(function, at + 1)) {
    if (at > 0 && is_name_char(text[at - 1])) continue;
    const size_t open = text.find_first_not_of(" \t", at + function.size());
    if (open != std::string::npos && text[open] == '(') return open + 1;
  }
  return std::string::npos;
}

bool imports(const std::string& text, const std::string& module) {
  for (std::string_view line : split_text(text, "\n")) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t>"), line.size()));
    if (line.starts_with("import " + module) || line.starts_with("from " + module)) return true;
  }
  return false;
}

NamedValues assigned(const std::string& text, Variables& variables) {
  NamedValues names;
  for (size_t line = 0; line < text.size();) {
    size_t end = std::min(text.find('\n', line), text.size());
    PythonReader reader(text, names);
    reader.at = line;
    const std::string_view environ = "os.environ[";
    const bool is_variable = text.compare(line, environ.size(), environ) == 0;
    if (is_variable) reader.at += environ.size();
    const Literal variable = is_variable ? reader.argument() : Literal();
    const std::string name = is_variable ? "" : reader.name();
    const bool is_whole_name = !is_variable || reader.take(']');
    if (is_whole_name && reader.at <= end && reader.take('=') && reader.at <= end) {
      const Literal value = reader.statement();
      if (value && !name.empty()) names[name] = *value;
      if (value && value->is_string() && variable && variable->is_string())
        variables[variable->get<std::string>()] = value->get<std::string>();
      if (value) end = std::max(end, std::min(text.find('\n', reader.at), text.size()));
    }
    line = end + 1;
  }
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
      for (const auto& [key, one] : value->items()) take_argument(key, one);
    } else {
      if (spreads) name += text.substr(value_at, reader.at - value_at);
      take_argument(name, value);
    }
    if (!reader.take(',') && (reader.skip_blank(), reader.at < text.size()) &&
        text[reader.at] != ')') {
      break;
    }
  }
}

}  // namespace plimsoll::cli
