// A launch of vLLM or another engine that was pasted: a shell line, a YAML file, a Python call.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "vllm/engine_args.h"

namespace plimsoll::cli {

struct PlanOptions;

using Variables = std::map<std::string, std::string>;
using Words = std::vector<std::string>;
using KnownNames = std::span<const std::string_view>;

inline bool is_among(KnownNames names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// True for a character of a name, in a shell and in Python.
inline bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The name in `Variables` of a file that the pasted text writes (a here-document, echo).
inline std::string file_variable(const std::string& path) {
  return "<" + std::filesystem::path(path).lexically_normal().string();
}

/// More words than a launch has; beyond, work that grows with their square would take minutes.
inline constexpr size_t kMostWords = 4096;
/// Refuses a command of more words than `most` by Error(usage).
void check_word_count(const Words& words, size_t most = kMostWords);

/// The functions of a shell text, and how many calls of them may still be followed.
struct ShellFunctions {
  Variables bodies;  // by name
  int calls_left = 32;
};

struct PastedLaunch {
  Words words;                                // vLLM's arguments, as argv would hold them
  Words defaults;                             // flags that the program's own defaults stand for
  Variables variables;                        // of its environment
  std::shared_ptr<ShellFunctions> functions;  // of the shell text; null: it calls none
  Variables releases;           // of packages that the text installs: {"vllm", "0.12.0"}
  std::string engine;           // another engine than vLLM, by its name in engines/engine.h
  std::string image;            // of the container; empty: none
  std::optional<int64_t> gpus;  // seen by the process; absent: all of the machine, or not stated
  vllm::Usage usage = vllm::Usage::server;
  std::vector<std::string> left_out;  // words that were pasted and not read
  /// Paths in the container and what the host mounts there: {"/cfg", "/srv/cfg"}.
  Variables mounts;
  std::string refused;  // why the program found has no plan; empty: it has one, or none was found
};

/// The text that --from names: it itself, or that of its file. Throws Error(usage) where it is
/// empty or its file is missing.
std::string pasted_text(const std::string& given);
/// The launch in a pasted text of any kind. Throws Error(usage).
PastedLaunch launch_of(const std::string& pasted);

/// The first launch in a shell text, whose `#SBATCH` lines say how many GPUs there are. Throws
/// Error(usage).
std::optional<PastedLaunch> launch_of_shell(const std::string& text, Variables variables = {});
/// The launch in a Dockerfile; nothing where the text is none. Throws Error(usage).
std::optional<PastedLaunch> launch_of_dockerfile(const std::string& text);
/// The launch in a task of SkyPilot: a YAML text with `run` and `resources`; nothing where the text
/// is no such YAML. Throws Error(usage).
std::optional<PastedLaunch> launch_of_task(const std::string& text);
/// The first launch of vLLM in a YAML text: a container of a compose file or a Kubernetes manifest,
/// a model of KServe, Ray Serve or vLLM's Helm chart, a config file of `vllm serve --config`;
/// nothing where the text is no such YAML. Throws Error(usage).
std::optional<PastedLaunch> launch_of_yaml(const std::string& text);
/// True for a text with keys of a compose file or a manifest of Kubernetes.
bool looks_like_manifest(const std::string& text);
/// Puts the flags of vLLM's config file (--config FILE) before the line's own, which win.
void read_config_file(PastedLaunch& launch);
/// Takes the first flag that `is_flag` accepts out of a line, with the file that it names; nothing
/// where there is none, or no value behind it.
std::optional<std::string> take_file_flag(Words& words,
                                          const std::function<bool(const std::string&)>& is_flag);
/// The text of a file of settings that the pasted text writes, or that this machine has.
std::optional<std::string> settings_text(const std::string& file, const Variables& pasted);
/// The flags of a config file of `vllm serve --config`; empty where the text is no such file.
Words flags_of_yaml(const std::string& text);
/// A YAML text as JSON; nothing where it is no YAML.
std::optional<Json> json_of_yaml(const std::string& text);
/// The first call of LLM(...) or (Async)EngineArgs(...) in a Python text; nothing where there is
/// none. Throws Error(usage).
std::optional<PastedLaunch> launch_of_python(const std::string& text);

/// The first launch among the lists of words and the command lines of a Python text that starts
/// processes (subprocess, os.system), or in a JSON list of words; nothing where there is none.
/// Throws Error(usage).
std::optional<PastedLaunch> launch_of_argv(const std::string& text);

/// The launch that a log of vLLM says, by its first line with "non-default args: {"; nothing where
/// there is none.
std::optional<PastedLaunch> launch_of_log(const std::string& text);

/// Notes a mount of docker's -v ("HOST:CONTAINER:ro") or --mount ("type=bind,source=HOST,...").
void add_mount(const std::string& text, PastedLaunch& launch);
/// Puts the host's path for words that name a mounted file or folder which this machine has, or
/// which the pasted text writes.
void use_mounts(PastedLaunch& launch);

/// The text as it was typed: without HTML's entities, curly quotes, dashes of a word processor,
/// invisible characters, prompts, Markdown's fences, quotes around all of it.
std::string plain_text(std::string text);

/// Fills `launch` from a container's command line, as its image's entrypoint reads it. False where
/// another program runs.
bool read_container_command(const Words& entrypoint, const Words& command, PastedLaunch& launch);

/// Fills `launch` with the words from `at` on. Returns true.
bool take(const Words& words, size_t at, vllm::Usage usage, PastedLaunch& launch);

/// Notes the releases of engines that a command installs, or fetches for the launch that it begins:
/// "pip install vllm==0.12.0", "uvx vllm@0.12.0 serve m". `written`: files that the text writes, as
/// requirements.txt.
void add_installed(const Words& command, Variables& releases, const Variables& written = {});
/// Notes those of a notebook's lines, which begin with "!" or "%".
void add_notebook_installs(const std::string& text, Variables& releases);

/// What follows an image's name, without a "v" before its number: "0.11.0" of
/// "vllm/vllm-openai:v0.11.0"; empty: nothing.
std::string tag_of(const std::string& image);

/// Reads the release of vLLM that the text installs, else that of its image: "vllm-openai:v0.11.0",
/// "nvidia/vllm:25.11-py3". A note says where neither tells it and which release is planned.
void read_release(const PastedLaunch& launch, PlanOptions& options);

/// Limits the GPUs to those that srun's flags ask for; words behind the flags are the program's.
void limit_to_slurm(std::span<const std::string> flags, PastedLaunch& launch);
/// Limits the GPUs to those that a text's `#SBATCH` lines ask for, and sets Slurm's variables.
void read_batch_lines(const std::string& text, PastedLaunch& launch);

/// Limits the GPUs to those of "2", "all", "device=0,1" (docker's --gpus) or "0,1"
/// (CUDA_VISIBLE_DEVICES' form, by `is_list`), if they are fewer than what is known.
void limit_gpus(PastedLaunch& launch, const std::string& text, bool is_list);

}  // namespace plimsoll::cli
