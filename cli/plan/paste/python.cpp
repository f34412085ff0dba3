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
#include "cli/plan/paste/python_calls.h"
#include "cli/plan/paste/shell/shell_words.h"
#include "plan/log/vllm_log.h"

namespace plimsoll::cli {
namespace {

/// tensor_parallel_size=2 as --tensor-parallel-size 2.
void add_flag(const std::string& name, const OrderedJson& value, Words& words) {
  if (value.is_null()) return;
  check_word_count(words);
  std::string flag = name;
  std::ranges::replace(flag, '_', '-');
  if (name == "model") {
    words.insert(words.begin(), word_of(value));
  } else if (value.is_boolean()) {
    words.push_back((value.get<bool>() ? "--" : "--no-") + flag);
  } else {
    words.push_back("--" + flag);
    words.push_back(word_of(value));
  }
}

void add_argument(const std::string& name, const Literal& value, PastedLaunch& launch) {
  if (value) {
    add_flag(name, *value, launch.words);
  } else {
    launch.left_out.push_back(name + " (not a literal)");
  }
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
  const NamedValues names = assigned(text, launch.variables);
  const auto add = [&](const std::string& name, const Literal& value, std::string_view) {
    if (!of_ray) return add_argument(name.empty() ? "model" : name, value, launch);
    const bool is_object = value && value->is_object();
    if (name == "engine_kwargs" && is_object) {
      for (const auto& [key, one] : value->items()) add_argument(key, one, launch);
    } else if (name == "model_loading_config" && is_object) {
      for (const char* key : {"model_source", "model_id"})
        if (launch.words.empty() || launch.words[0].starts_with("--"))
          add_argument("model", value->value(key, OrderedJson()), launch);
    } else if (name == "engine_kwargs" || name == "model_loading_config") {
      launch.left_out.push_back(name + " (not a literal)");
    }
  };
  for_each_argument(text, at, names, add);
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
    if (expression == "sys.executable") item = "python";
    words.push_back(item ? word_of(*item) : "$" + expression);
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
  NamedValues names = assigned(text, launch.variables, Expressions::kept);
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
    const bool is_argument = name.find('.') != std::string::npos;  // of argparse: no command
    if (is_argument || !value.is_string() ||
        value.get<std::string>().find(' ') == std::string::npos) {
      continue;
    }
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
  const plan::VllmLog log = plan::read_vllm_log(text);
  if (!log.version.empty()) launch.releases["vllm"] = log.version;
  if (log.flashinfer) launch.variables["VLLM_USE_FLASHINFER_SAMPLER"] = *log.flashinfer ? "1" : "0";
  if (log.first_engine == true) launch.variables["VLLM_USE_V1"] = "0";
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
