// LLM(model="...", tensor_parallel_size=2): a call whose arguments are Python literals; and those
// of vLLM's log, "non-default args: {'model': '...'}".
#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/split_text.h"
#include "base/trim.h"
#include "cli/plan/paste/python_reader.h"
#include "cli/plan/paste/shell_words.h"
#include "plan/log/vllm_log.h"

namespace plimsoll::cli {
namespace {

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
  check_word_count(words);
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
  for (const char* function : {"LLM", "AsyncEngineArgs", "EngineArgs", "LLMConfig"})
    if (at == std::string::npos) at = call_of(text, function);
  const bool of_ray = at != std::string::npos && text.substr(0, at).ends_with("LLMConfig(");
  if (of_ray) launch.usage = vllm::Usage::server;
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
    const bool spreads = reader.take('*') && reader.take('*');  // **options
    std::string name = spreads ? "**" : reader.name();
    if (!spreads && (name.empty() || !reader.take('='))) {
      reader.at = first;
      name = "model";
    }
    const size_t value_at = reader.at;
    const Literal value = reader.argument();
    if (spreads && !value) name += text.substr(value_at, reader.at - value_at);
    const bool is_group = spreads || (of_ray && name == "engine_kwargs");
    if (is_group && value && value->is_object()) {
      for (const auto& [key, one] : value->items()) add_argument(key, one, launch);
    } else if (!of_ray) {
      add_argument(name, value, launch);
    } else if (name == "model_loading_config" && value && value->is_object()) {
      for (const char* key : {"model_source", "model_id"})
        if (launch.words.empty() || launch.words[0].starts_with("--"))
          add_argument("model", value->value(key, OrderedJson()), launch);
    } else if (name == "engine_kwargs" || name == "model_loading_config") {
      launch.left_out.push_back(name + " (not a literal)");
    }
    if (!reader.take(',') && (reader.skip_blank(), reader.at < text.size()) &&
        text[reader.at] != ')') {
      break;
    }
  }
  return launch;
}

namespace {

/// The words of the list that begins at `at`; "$" and its text for an expression.
Words words_of_list(const std::string& text, size_t at, const NamedValues& names) {
  constexpr size_t kMostItems = 1000;
  PythonReader reader(text, names);
  reader.at = at + 1;
  Words words;
  while (words.size() < kMostItems && reader.at < text.size() && !reader.take(']')) {
    const size_t first = reader.at;
    Literal item = reader.argument();
    const std::string written = text.substr(first, reader.at - first);
    const std::string expression(trimmed(written, " \t\r\n"));
    constexpr std::string_view kText = "str(";
    if (!item && expression.starts_with(kText)) {
      const std::string inner = expression.substr(kText.size());
      item = PythonReader(inner, names).argument();
    }
    if (expression == "sys.executable") item = "python";
    words.push_back(!item               ? "$" + expression
                    : item->is_string() ? item->get<std::string>()
                                        : item->dump());
    if (!reader.take(',')) break;
  }
  return words;
}

}  // namespace

std::optional<PastedLaunch> launch_of_argv(const std::string& text) {
  constexpr std::string_view kStarts[] = {"subprocess", "os.system", "Popen", "shlex.split"};
  const std::string_view begin = trimmed(text, " \t\r\n");
  const auto is_in = [&](std::string_view name) { return begin.find(name) < begin.size(); };
  if (!begin.starts_with('[') && !std::ranges::any_of(kStarts, is_in)) return std::nullopt;
  PastedLaunch launch;
  NamedValues names = assigned(text, launch.variables);
  constexpr size_t kMostLists = 100;  // each is read up to its end
  std::vector<Words> commands;
  for (size_t at = text.find('['); at != std::string::npos && commands.size() < kMostLists;
       at = text.find('[', at + 1))
    commands.push_back(words_of_list(text, at, names));
  for (const char* function : {"system", "run", "Popen", "call", "check_call", "check_output",
                               "split", "create_subprocess_shell"}) {
    const size_t call = call_of(text, function);
    PythonReader reader(text, names);
    reader.at = std::min(call, text.size());
    if (const Literal line = reader.literal()) names[std::string("(") + function] = *line;
  }
  for (const auto& [name, value] : names) {
    if (!value.is_string() || value.get<std::string>().find(' ') == std::string::npos) continue;
    for (Words& command : shell_commands(value.get<std::string>(), launch.variables))
      commands.push_back(std::move(command));
  }
  for (const Words& command : commands)
    if (read_container_command({}, command, launch)) return launch;
  return std::nullopt;
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
