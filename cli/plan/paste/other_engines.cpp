#include "cli/plan/paste/other_engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/lower_case.h"
#include "cli/arguments.h"
#include "engines/engine.h"

namespace plimsoll::cli {
namespace {

constexpr std::string_view kBench =
    "llama-bench starts a launch for each of its tests; plan the largest as a line of "
    "llama-completion with -c for its prompt, depth and answer together: llama-bench -p 512,1024 "
    "-n 128 -ctk f16,q8_0 as llama-completion -c 1024 -ctk f16";
constexpr std::string_view kClient = "it asks a server; paste the line that starts the server";
constexpr std::string_view kRouter =
    "sglang_router starts several servers; paste the line of one, such as 'sglang serve "
    "--model-path MODEL'";

/// A program or module that starts an engine other than vLLM, and the words behind its name that
/// belong to it; or why it has no plan.
struct OtherProgram {
  std::string_view name;
  std::vector<std::string_view> words;
  std::string_view engine;
  std::string_view refused = {};
  bool common = false;  // a name that other programs have too: it counts with a model
  std::vector<std::string_view> defaults = {};  // flags that its own defaults stand for
};
const std::vector<OtherProgram>& other_programs() {
  // llama-cli runs the server's code with one sequence; llama-completion has logits of each token.
  static const std::vector<std::string_view> kOneSequence = {"--parallel", "1"};
  static const std::vector<std::string_view> kAllLogits = {"--fit-print", "on"};
  static const std::vector<OtherProgram> kPrograms = {
      {"sglang", {"serve"}, "sglang"},
      {"sglang.launch_server", {}, "sglang"},
      {"sglang", {}, "sglang"},
      {"lmdeploy", {"serve", "api_server"}, "lmdeploy"},
      {"lmdeploy", {"serve", "proxy"}, "", "lmdeploy serve proxy loads no model"},
      {"lmdeploy", {"serve", "api_client"}, "", kClient},
      {"lmdeploy", {"serve"}, "lmdeploy"},
      {"llama-server", {}, "llamacpp"},
      {"llama-cli", {}, "llamacpp", "", false, kOneSequence},
      {"llama-completion", {}, "llamacpp", "", false, kAllLogits},
      {"llama-fit-params", {}, "llamacpp", "", false, kAllLogits},
      {"llama-mtmd-cli", {}, "llamacpp", "", false, kOneSequence},
      {"server", {}, "llamacpp", "", true},  // builds before July 2024
      {"main", {}, "llamacpp", "", true, kOneSequence},
      {"trtllm-serve", {"serve"}, "tensorrt-llm"},
      {"trtllm-serve", {"disaggregated"}, "", "trtllm-serve disaggregated loads no model"},
      {"trtllm-serve", {}, "tensorrt-llm"},
      {"transformers", {"serve"}, "transformers"},
      {"llama-bench", {}, "", kBench},
      {"llama-batched-bench", {}, "", kBench},
      {"llama-perplexity", {}, "", "llama-perplexity serves nobody; paste a line of llama-server"},
      {"llama_cpp.server", {}, "", "llama-cpp-python has flags of its own; paste llama-server's"},
      {"sglang_router.launch_server", {}, "", kRouter},
      {"sglang_router.launch_router", {}, "", kRouter},
      {"sglang.bench_serving", {}, "", kClient},
  };
  return kPrograms;
}

/// "./llama-server", ".\\llama-server" and "llama-server.exe" behind folders.
std::string program_name(const std::string& word) {
  std::string name = std::filesystem::path(word).filename();
  if (name.starts_with(".llama")) name.erase(0, 1);
  constexpr std::string_view kWindows = ".exe";
  if (!name.ends_with(kWindows)) return name;
  name.resize(name.size() - kWindows.size());
  // The shell reader drops the backslashes of a path.
  for (const OtherProgram& program : other_programs())
    if (!program.common && name.ends_with(program.name)) return std::string(program.name);
  return name;
}

const OtherProgram* program_at(const Words& words, size_t at) {
  const std::string name = program_name(words[at]);
  for (const OtherProgram& program : other_programs()) {
    if (name != program.name) continue;
    const auto behind = words.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    const auto left = static_cast<size_t>(words.end() - behind);
    if (left < program.words.size() ||
        !std::equal(program.words.begin(), program.words.end(), behind))
      continue;
    const bool has_model = std::any_of(behind, words.end(), [](const std::string& word) {
      return word == "-m" || word == "--model";
    });
    if (program.common && !has_model) continue;
    return &program;
  }
  return nullptr;
}

/// The program that the entrypoint of llama.cpp's images runs, and the first of its words.
std::pair<std::string, size_t> program_of_image(const std::string& image, const Words& words) {
  const std::string tag = image.substr(image.find("llama.cpp:") + 10);
  if (tag.starts_with("light")) return {"llama-cli", 0};
  if (!tag.starts_with("full")) return {"llama-server", 0};
  const std::string first = words.empty() ? "" : words.front();  // .devops/tools.sh
  if (first == "--run" || first == "-r") return {"llama-cli", 1};
  if (first == "--server" || first == "-s") return {"llama-server", 1};
  if (first == "--bench" || first == "-b") return {"llama-bench", 1};
  return {"", 0};
}

/// The release in an image's tag: lmsysorg/sglang:v0.5.4-cu128; empty: the tag names none.
std::string release_in(const std::string& image) {
  std::string tag = tag_of(image);
  tag = tag.substr(0, tag.find_first_not_of("0123456789."));
  while (tag.ends_with('.')) tag.pop_back();  // v0.4.7.post1
  return tag.find('.') == std::string::npos ? "" : tag;
}

/// The flag that a variable of the environment stands for, with its value: LLAMA_ARG_CTX_SIZE=4096
/// as --ctx-size 4096; nothing: one that moves no memory.
Words words_of_variable(const engines::Engine& engine, const std::string& name,
                        const std::string& value) {
  const auto at = std::ranges::find(engine.variables, name, &engines::OwnFlag::first);
  std::string flag = "--" + lower_case(name.substr(engine.variable_prefix.size()));
  std::ranges::replace(flag, '_', '-');
  if (at != engine.variables.end()) flag = at->second;
  if (flag == "--model") return {flag, value};
  const engines::Flag* const known =
      flag.empty() ? nullptr : engines::find_flag(engine.flags, flag);
  if (known == nullptr) return {};
  const bool is_text = known->kind == engines::FlagKind::text;  // LLAMA_ARG_HF_REPO names a model
  if (!known->moves && !is_text) return {};
  if (known->kind != engines::FlagKind::bare) return {flag, value};
  const std::string setting = lower_case(value);
  if (setting == "1" || setting == "true" || setting == "on" || setting == "enabled") return {flag};
  const std::string opposite = "--no-" + flag.substr(2);
  return engines::find_flag(engine.flags, opposite) == nullptr ? Words() : Words{opposite};
}

}  // namespace

bool starts_other(const Words& words, size_t at) {
  return program_at(words, at) != nullptr;
}

bool take_other(const Words& words, size_t at, PastedLaunch& launch) {
  const OtherProgram* const program = program_at(words, at);
  if (program == nullptr) return false;
  launch.refused = program->refused;
  if (program->engine.empty()) return false;
  launch.engine = program->engine;
  launch.defaults.assign(program->defaults.begin(), program->defaults.end());
  return take(words, at + 1 + program->words.size(), vllm::Usage::server, launch);
}

bool take_other_image(const Words& words, PastedLaunch& launch) {
  Words line;
  size_t from = 0;
  if (launch.image.find("lmdeploy") != std::string::npos && !words.empty() &&
      words.front() == "serve") {
    line = {"lmdeploy"};
  } else if (launch.image.find("llama.cpp:") != std::string::npos) {
    const auto [program, first] = program_of_image(launch.image, words);
    if (program.empty()) return false;
    line = {program};
    from = first;
  } else {
    return false;
  }
  line.insert(line.end(), words.begin() + static_cast<std::ptrdiff_t>(from), words.end());
  return take_other(line, 0, launch);
}

void choose_release(const engines::Engine& engine, const Words& words, PlanOptions& options) {
  if (!options.flags_choose_release || engine.last_release == nullptr) return;
  const std::optional<engines::Version> last = engine.last_release(words);
  if (!last) return;
  const std::string& chosen = options.engine_version;
  if (!chosen.empty() && engines::parse_release(chosen, engine.newest) <= *last) return;
  options.engine_version = model::version_text(*last);
  options.release_note = fmt::format(
      "planned as {} {}, the last release that takes all of these flags "
      "(--engine-version says another)",
      engine.name, options.engine_version);
}

std::vector<std::string> expand_other_engine(const PastedLaunch& launch,
                                             const std::vector<std::string>& arguments,
                                             PlanOptions& options) {
  options.engine = launch.engine;
  options.left_out = launch.left_out;
  options.engine_variables = launch.variables;
  PastedLaunch seen = launch;
  const engines::Engine& engine = *engines::find_engine(launch.engine);
  std::vector<std::string> all = {arguments.front()};
  all.insert(all.end(), launch.defaults.begin(), launch.defaults.end());
  for (const auto& [name, value] : launch.variables) {
    if (name == "CUDA_VISIBLE_DEVICES" || name == "NVIDIA_VISIBLE_DEVICES")
      limit_gpus(seen, value, true);
    if (engine.variable_prefix.empty() || !name.starts_with(engine.variable_prefix)) continue;
    const Words words = words_of_variable(engine, name, value);
    all.insert(all.end(), words.begin(), words.end());
  }
  options.gpus_pasted = seen.gpus;
  const Words words = rewrite_arguments(launch.words);
  const auto installed = launch.releases.find(launch.engine);
  const bool installs = installed != launch.releases.end();
  options.engine_version = installs ? installed->second : release_in(launch.image);
  const bool stated = std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument.starts_with("--engine-version");
  });
  if (options.engine_version.empty() && !launch.image.empty()) {
    options.release_note = fmt::format(
        "the image {} does not say its release: planned as the newest known "
        "(--engine-version X.Y.Z says another)",
        launch.image);
  }
  options.flags_choose_release = options.engine_version.empty() && !stated;
  options.typed_beside = arguments.size() - 1;
  choose_release(engine, words, options);
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), arguments.begin() + 1, arguments.end());
  return all;
}

}  // namespace plimsoll::cli
