// Which program a shell text runs: vLLM itself, or one that starts it.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/error.h"
#include "cli/plan/paste/other_engines.h"
#include "cli/plan/paste/shell/shell_words.h"
#include "cli/plan/paste/shell/starters.h"

namespace plimsoll::cli {
namespace {

constexpr std::string_view kShells[] = {"sh", "bash", "zsh", "dash", "ash"};
constexpr std::string_view kContainers[] = {"docker", "podman", "nerdctl"};
constexpr std::string_view kClusters[] = {"kubectl", "oc", "k3s"};
// Programs whose flags are not known here: the launch is looked for behind them.
constexpr std::string_view kOpaque[] = {"singularity", "apptainer", "enroot",    "shifter",
                                        "tmux",        "mpirun",    "mpiexec",   "ssh",
                                        "sbatch",      "eval",      "accelerate"};

// Flags of `docker run` and its kin that take no value.
constexpr std::string_view kBareFlags[] = {"--detach",
                                           "--disable-content-trust",
                                           "--env-host",
                                           "--help",
                                           "--init",
                                           "--interactive",
                                           "--no-healthcheck",
                                           "--no-hosts",
                                           "--no-hostname",
                                           "--oom-kill-disable",
                                           "--privileged",
                                           "--publish-all",
                                           "--quiet",
                                           "--read-only",
                                           "--replace",
                                           "--rm",
                                           "--rmi",
                                           "--sig-proxy",
                                           "--tty"};
constexpr std::string_view kBareLetters = "diqtP";

bool find_launch(const Words& words, size_t at, PastedLaunch& launch);

}  // namespace

bool take(const Words& words, size_t at, vllm::Usage usage, PastedLaunch& launch) {
  launch.usage = usage;
  launch.words.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())),
                      words.end());
  return true;
}

namespace {

/// `at` is the word behind "vllm".
bool take_command(const Words& words, size_t at, PastedLaunch& launch) {
  const auto word = [&](size_t i) { return i < words.size() ? words[i] : std::string(); };
  const std::string command = word(at);
  if (command == "serve") return take(words, at + 1, vllm::Usage::server, launch);
  if (command == "run-batch") return take(words, at + 1, vllm::Usage::batch, launch);
  const std::string kind = word(at + 1);
  if (command == "bench" && (kind == "throughput" || kind == "latency"))
    return take(words, at + 2, vllm::Usage::offline, launch);
  return false;
}

bool take_module(const Words& words, size_t at, PastedLaunch& launch) {
  const std::string& module = words[at];
  if (take_other(words, at, launch)) return true;
  if (!module.starts_with("vllm")) return false;
  if (module == "vllm" || module.ends_with(".cli.main") || module.ends_with(".scripts"))
    return take_command(words, at + 1, launch);
  const bool batch = module.ends_with("run_batch");
  return take(words, at + 1, batch ? vllm::Usage::batch : vllm::Usage::server, launch);
}

/// `at` is the word behind "python".
bool find_in_python(const Words& words, size_t at, PastedLaunch& launch) {
  for (; at < words.size() && words[at].starts_with("-"); ++at) {
    if (words[at] == "-m") return at + 1 < words.size() && take_module(words, at + 1, launch);
  }
  if (at >= words.size()) return false;
  const std::string script = std::filesystem::path(words[at]).filename();
  if (script == "api_server.py") return take(words, at + 1, vllm::Usage::server, launch);
  if (script == "benchmark_throughput.py" || script == "benchmark_latency.py")
    return take(words, at + 1, vllm::Usage::offline, launch);
  return script == "vllm" && take_command(words, at + 1, launch);
}

/// The first launch of a shell text's commands.
bool find_in_commands(const std::string& text, PastedLaunch& launch) {
  for (const Words& command : shell_commands(text, launch.variables)) {
    add_installed(command, launch.releases, launch.variables);
    if (find_launch(command, 0, launch)) return true;
  }
  return false;
}

bool find_in_shell(const Words& words, size_t at, PastedLaunch& launch) {
  for (; at + 1 < words.size() && words[at].starts_with("-"); ++at) {
    if (words[at].starts_with("--") || words[at].find('c') == std::string::npos) continue;
    if (find_in_commands(words[at + 1], launch)) return true;
  }
  return false;
}

/// Follows the call of a function, whose name is the word at `at`.
bool find_in_function(const Words& words, size_t at, PastedLaunch& launch) {
  if (launch.functions->calls_left-- <= 0) return false;
  const Variables before = launch.variables;
  set_arguments(words, at, launch.variables);
  if (find_in_commands(launch.functions->bodies.at(words[at]), launch)) return true;
  launch.variables = before;
  return false;
}

/// Flags of a container that matter to the launch in it: variables, GPUs, entry point.
struct Container {
  Words entrypoint;
  PastedLaunch& launch;

  void take(std::string_view name, const std::string& value) {
    if (name == "-e" || name == "--env") {
      if (is_assignment(value)) assign(launch.variables, value);
    } else if (name == "--gpus") {
      limit_gpus(launch, value, false);
    } else if (name == "-v" || name == "--volume" || name == "--mount") {
      add_mount(value, launch);
    } else if (name == "--entrypoint") {
      entrypoint = {value};
    } else if (name == "--env-file") {
      launch.left_out.emplace_back("--env-file " + value);
    } else if (name == "--device" && value.starts_with("nvidia.com/gpu=")) {
      devices += (devices.empty() ? "" : ",") + value.substr(value.find('=') + 1);
    }
  }
  std::string devices = {};  // podman names each by a flag of its own
};

/// `at` is the word behind "docker".
bool find_in_container(const Words& words, size_t at, PastedLaunch& launch) {
  bool runs = false;  // a new container, whose image follows; else `exec`, with a container's name
  Container container{.entrypoint = {}, .launch = launch};
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    const size_t equals = word.find('=');
    if (word == "container") continue;
    if (word == "run" || word == "create" || word == "exec") {
      runs = word != "exec";
    } else if (word.starts_with("--")) {
      const std::string name = word.substr(0, equals);
      if (equals != std::string::npos) {
        container.take(name, word.substr(equals + 1));
      } else if (!is_among(kBareFlags, name) && at + 1 < words.size()) {
        container.take(name, words[++at]);
      }
    } else if (word.starts_with("-")) {
      const size_t letter = word.find_first_not_of(kBareLetters, 1);
      if (letter == std::string::npos) continue;
      std::string value = word.substr(letter + 1);
      if (value.starts_with("=")) value.erase(0, 1);
      if (value.empty() && at + 1 < words.size()) value = words[++at];
      container.take(std::string("-") + word[letter], value);
    } else {
      break;
    }
  }
  if (at >= words.size()) return false;
  if (!container.devices.empty()) limit_gpus(launch, container.devices, true);
  if (runs) {
    launch.image = words[at];
    launch.releases.clear();  // of what is installed outside
  }
  const Words command(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  return runs ? read_container_command(container.entrypoint, command, launch)
              : find_launch(command, 0, launch);
}

/// `at` is the word behind "kubectl".
bool find_in_cluster(const Words& words, size_t at, PastedLaunch& launch) {
  constexpr std::string_view kImage = "--image";
  for (; at < words.size() && words[at] != "--"; ++at) {
    if (words[at].starts_with("--image=")) launch.image = words[at].substr(kImage.size() + 1);
    if (words[at] == kImage && at + 1 < words.size()) launch.image = words[at + 1];
  }
  if (at == words.size()) return false;
  const Words command(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  return read_container_command({}, command, launch);
}

constexpr std::string_view kDockerImage = "docker://";  // of Apptainer

/// The image that srun's plug-in pyxis starts: --container-image=[docker://]IMAGE.
void note_container(const Words& words, size_t at, PastedLaunch& launch) {
  constexpr std::string_view kFlag = "--container-image";
  if (!words[at].starts_with(kFlag)) return;
  const size_t equals = words[at].find('=');
  std::string image = equals != std::string::npos ? words[at].substr(equals + 1)
                      : at + 1 < words.size()     ? words[at + 1]
                                                  : "";
  std::ranges::replace(image, '#', '/');  // nvcr.io#nvidia/vllm
  if (image.starts_with(kDockerImage)) image.erase(0, kDockerImage.size());
  launch.image = image;
}

/// The first word from `at` on that starts vLLM, by itself or as a shell's text.
bool find_behind(const Words& words, size_t at, PastedLaunch& launch) {
  for (; at < words.size(); ++at) {
    const std::string name = std::filesystem::path(words[at]).filename();
    const bool starts = name == "vllm" || name.starts_with("python") || is_among(kShells, name) ||
                        starts_other(words, at);
    if (starts && find_launch(words, at, launch)) return true;
    if (words[at].starts_with("vllm.entrypoints") && take_module(words, at, launch)) return true;
    if (words[at].starts_with(kDockerImage)) launch.image = words[at].substr(kDockerImage.size());
    if (words[at].find(' ') == std::string::npos) continue;
    std::string text = words[at];
    if (text.starts_with("--wrap=")) text.erase(0, text.find('=') + 1);  // of sbatch
    for (const Words& command : shell_commands(text, launch.variables))
      if (find_launch(command, 0, launch)) return true;
  }
  return false;
}

bool find_launch(const Words& words, size_t at, PastedLaunch& launch) {
  // Keys of a systemd unit and of supervisord's programs.
  constexpr std::string_view kCommands[] = {"ExecStart=", "command="};
  while (at < words.size()) {
    std::string word = words[at];
    for (const std::string_view begin : kCommands)
      if (word.starts_with(begin)) word.erase(0, begin.size());
    if (is_assignment(word)) {
      assign(launch.variables, words[at++]);
      continue;
    }
    if (launch.functions && launch.functions->bodies.contains(word))
      return find_in_function(words, at, launch);
    const std::string name = std::filesystem::path(word).filename();
    if (name == "vllm" || name.starts_with("vllm@")) return take_command(words, at + 1, launch);
    if (take_other(words, at, launch)) return true;
    if (name.starts_with("python") || name == "torchrun")
      return find_in_python(words, at + 1, launch);
    if (is_among(kShells, name)) return find_in_shell(words, at + 1, launch);
    if (is_among(kContainers, name)) return find_in_container(words, at + 1, launch);
    if (is_among(kClusters, name)) return find_in_cluster(words, at + 1, launch);
    if (name == "sbatch") limit_to_slurm(std::span(words).subspan(at + 1), launch);
    if (is_among(kOpaque, name)) return find_behind(words, at + 1, launch);
    const auto starter = std::ranges::find(starters(), name, &Starter::name);
    if (starter == starters().end()) return false;
    if (name == "srun" || name == "salloc")
      limit_to_slurm(std::span(words).subspan(at + 1), launch);
    for (++at; at < words.size() && words[at].starts_with("-") && words[at] != "--"; ++at) {
      note_container(words, at, launch);
      if (std::ranges::find(starter->with_value, words[at]) != starter->with_value.end()) ++at;
    }
    at += starter->operands;
  }
  return false;
}

}  // namespace

bool read_container_command(const Words& entrypoint, const Words& command, PastedLaunch& launch) {
  Words words = entrypoint;
  words.insert(words.end(), command.begin(), command.end());
  if (find_launch(words, 0, launch)) return true;
  if (entrypoint.empty() && take_other_image(words, launch)) return true;
  // The entrypoint of vLLM's image is the server itself.
  if (!entrypoint.empty() || launch.image.find("vllm") == std::string::npos) return false;
  return take(words, !words.empty() && words.front() == "serve" ? 1 : 0, vllm::Usage::server,
              launch);
}

namespace {

/// The first launch of the text's commands, in the surroundings of `launch`.
std::optional<PastedLaunch> first_launch(const std::string& text, PastedLaunch launch) {
  const std::vector<Words> commands = shell_commands(text, launch.variables);
  PastedLaunch before = launch;
  std::string refused;
  for (const Words& command : commands) {
    before.releases = launch.releases;
    launch = before;
    add_installed(command, launch.releases, launch.variables);
    if (find_launch(command, 0, launch)) return launch;
    if (refused.empty()) refused = launch.refused;
  }
  if (!refused.empty()) fail(ExitCode::usage, "--from: {}", refused);
  return std::nullopt;
}

/// The first launch where calls of the text's functions are followed; nothing where that fails.
std::optional<PastedLaunch> called_launch(const std::string& text, PastedLaunch launch) {
  std::string rest = text;
  ShellFunctions functions{.bodies = take_functions(rest)};
  if (functions.bodies.empty()) return std::nullopt;
  try {
    (void)shell_commands(text, launch.variables);  // what functions export, and files they write
    launch.functions = std::make_shared<ShellFunctions>(std::move(functions));
    return first_launch(rest, std::move(launch));
  } catch (const Error&) {
    return std::nullopt;  // the text as it stands says why
  }
}

}  // namespace

std::optional<PastedLaunch> launch_of_shell(const std::string& text, Variables variables) {
  PastedLaunch launch;
  launch.variables = std::move(variables);
  read_batch_lines(text, launch);
  if (std::optional<PastedLaunch> called = called_launch(text, launch)) return called;
  return first_launch(text, std::move(launch));
}

}  // namespace plimsoll::cli
