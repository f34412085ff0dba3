// Which kind of text was pasted, and the launch in it.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/split_text.h"
#include "base/trim.h"
#include "cli/plan/paste/python_calls.h"
#include "cli/plan/paste/shell/process_list.h"
#include "cli/plan/paste/shell/shell_words.h"
#include "plan/log/vllm_log.h"

namespace plimsoll::cli {
namespace {

/// Other engines, by what their programs, modules and images are called; those that plan knows,
/// and those that it does not.
constexpr std::string_view kKnownEngines[] = {
    "sglang", "lmdeploy", "trtllm-serve", "llama-server", "llama-cli", "tensorrt-llm", "llama.cpp"};
constexpr std::string_view kOtherEngines[] = {"text-generation-launcher",
                                              "ollama",
                                              "text-generation-inference",
                                              "mlx_lm",
                                              "aphrodite",
                                              "tritonserver",
                                              "tabbyapi"};

/// Refuses a command that starts no vLLM: its words are no flags of vLLM. MODEL and flags alone
/// pass, but not in a text that `writes` files.
void check_flags_alone(const Words& words, bool writes) {
  const auto is_word = [&](size_t i) { return i < words.size() && !words[i].starts_with("-"); };
  if (!is_word(0)) return;
  const std::string first = std::filesystem::path(words[0]).filename();
  if (first == "plimsoll")
    fail(ExitCode::usage,
         "--from: takes a launch of vLLM; plimsoll's own flags go to plan as they are");
  const auto names = [&](KnownNames engines, size_t i) {
    const std::string program = std::filesystem::path(words[i]).filename();
    return std::ranges::any_of(engines, [&](std::string_view engine) {
      return i == 0 ? program == engine : words[i].find(engine) != std::string::npos;
    });
  };
  for (size_t i = 0; i < words.size() && (i == 0 || is_word(1)); ++i) {
    if (names(kOtherEngines, i)) {
      fail(ExitCode::usage,
           "--from: {} is another engine; plan reads lines of vLLM, SGLang, LMDeploy, "
           "llama.cpp, TensorRT-LLM and transformers",
           std::filesystem::path(words[i]).filename().string());
    }
    if (names(kKnownEngines, i)) {
      fail(ExitCode::usage,
           "--from: no launch was found in the command \"{}\", which names {}; paste from the "
           "program that serves the model on, such as 'llama-server -m FILE.gguf' or 'sglang serve "
           "--model-path MODEL'",
           words[0], words[i]);
    }
  }
  const bool named = std::ranges::any_of(words, [](const std::string& word) {
    return word == "--model" || word.starts_with("--model=");
  });
  if (is_word(1) || named || writes)
    fail(ExitCode::usage,
         "--from: no launch of vLLM was found behind \"{}{}\"; paste from the word vllm on, such "
         "as 'vllm serve MODEL'",
         words[0], words.size() > 1 ? " " + words[1] : "");
}

/// Refuses texts that launch a model, or are of a launch, and say nothing that plan reads.
void check_other_texts(const std::string& text) {
  if (plan::is_vllm_log(text))
    fail(ExitCode::usage,
         "--from: the log does not say its launch (\"non-default args: ...\"); name MODEL and the "
         "flags that vLLM was started with");
  const std::string code = code_of(text);
  const bool of_transformers =
      code.find("transformers") != std::string::npos || code.find("AutoModel") != std::string::npos;
  if (of_transformers && (call_of(code, "from_pretrained") != std::string::npos ||
                          call_of(code, "pipeline") != std::string::npos))
    fail(ExitCode::usage,
         "--from: calls of transformers' from_pretrained and pipeline are not read; plan the model "
         "with --engine transformers, for generate() with --cache-implementation dynamic");
}

/// The text as a shell's, without the "!" before a notebook's commands.
std::string shell_of_notebook(std::string_view text) {
  std::string shell;
  for (const std::string_view line : split_text(text, "\n")) {
    const size_t first = line.find_first_not_of(" \t");
    const bool is_command = first != std::string_view::npos && line[first] == '!';
    shell += line.substr(is_command ? first + 1 : 0);
    shell += '\n';
  }
  return shell;
}

/// The launch in a text of any kind; nothing where there is none.
std::optional<PastedLaunch> launch_in(const std::string& text) {
  if (auto logged = launch_of_log(text)) return logged;
  const std::optional<PastedLaunch> other = launch_of_other_python(text);
  std::optional<PastedLaunch> called = launch_of_python(text);
  // Both engines have an LLM(...). Of two branches vLLM's counts.
  if (other && (!called || other->engine == "tensorrt-llm")) called = other;
  if (called) {
    add_notebook_installs(text, called->releases);
    return called;
  }
  if (auto started = launch_of_argv(text)) return started;
  if (auto started = launch_of_dockerfile(text)) return started;
  if (auto started = launch_of_task(text)) return started;
  const bool is_manifest = looks_like_manifest(text);  // its scripts are shell texts too
  std::optional<PastedLaunch> in_yaml = is_manifest ? launch_of_yaml(text) : std::nullopt;
  if (in_yaml) return in_yaml;
  const std::string commands = commands_of_process_list(shell_of_notebook(text));
  if (auto started = launch_of_shell(commands)) return started;
  return is_manifest ? std::nullopt : launch_of_yaml(text);
}

/// The code of a Jupyter notebook, whose cells hold it line by line; nothing for another text.
std::optional<std::string> code_of_notebook(const std::string& text) {
  if (!trimmed(text, " \t\r\n").starts_with('{') || text.find("\"cells\"") == std::string::npos)
    return std::nullopt;
  try {
    const Json notebook = parse_json<Json>(text);
    std::string code;
    for (const Json& cell : notebook.at("cells")) {
      if (cell.at("cell_type") != "code") continue;
      const Json& source = cell.at("source");
      for (const Json& line : source.is_array() ? source : Json::array({source}))
        code += line.get<std::string>();
      code += '\n';
    }
    return code;
  } catch (const std::exception&) {  // of JSON, or its types
    return std::nullopt;
  }
}

}  // namespace

std::string pasted_text(const std::string& given) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(given, ignored);
  const bool is_word = given.find_first_of(" \t\r\n({") == std::string::npos;
  constexpr std::string_view kFiles[] = {".sh",   ".bash",    ".slurm", ".sbatch", ".py",
                                         ".yaml", ".yml",     ".json",  ".log",    ".txt",
                                         ".env",  ".service", ".toml",  ".ipynb",  ".conf"};
  const auto names_file = [&](std::string_view end) { return given.ends_with(end); };
  if (!is_file && is_word && std::ranges::any_of(kFiles, names_file))
    fail(ExitCode::usage, "--from {}: no such file", given);
  std::string text = is_file ? read_text_file(given, 1 << 20) : given;
  const std::optional<std::string> code = code_of_notebook(text);
  if (code) text = *code;
  if (trimmed(text, " \t\r\n").empty())
    fail(ExitCode::usage, "--from{}: {}", is_file ? " " + given : "",
         code ? "is a notebook without code" : "is empty");
  return text;
}

PastedLaunch launch_of(const std::string& pasted) {
  const std::string text = plain_text(pasted);
  if (auto found = launch_in(text)) return *found;
  PastedLaunch launch;
  const std::vector<Words> commands = shell_commands(text, launch.variables);
  bool writes = false;  // a script, perhaps, that it starts
  for (const auto& [name, written] : launch.variables) {
    if (!name.starts_with(file_variable(""))) continue;
    writes = true;
    if (auto found = launch_in(written)) return *found;
  }
  check_other_texts(text);
  if (!commands.empty()) launch.words = commands.front();  // flags alone
  check_flags_alone(launch.words, writes);
  return launch;
}

}  // namespace plimsoll::cli
