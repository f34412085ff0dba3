// Releases of engines that a pasted text installs: "pip install vllm==0.12.0", "uvx vllm@0.12.0".
#include <filesystem>
#include <regex>

#include "base/lower_case.h"
#include "base/split_text.h"
#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {
namespace {

constexpr std::string_view kPackages[] = {"vllm", "sglang", "lmdeploy", "tensorrt-llm",
                                          "transformers"};
// Words that a launch begins with: what follows names models and settings.
constexpr std::string_view kLaunches[] = {"vllm", "serve", "run-batch", "trtllm-serve"};

/// Notes the release of a requirement (PEP 440; conda's package=release where `installs`), of uvx's
/// package@release, of a repository's tag or of a wheel; other words say nothing.
void add_release(const std::string& given, bool installs, Variables& releases) {
  constexpr size_t kLongest = 300;  // characters of a wheel's address
  static const std::regex form(
      R"((?:--[\w-]+=)?(?:\S*(?:/|::))?(vllm|sglang|lmdeploy|tensorrt[-_]llm|transformers)(?:\.git)?(?:\[[^\]]*\])?)"
      R"((={1,3}|~=|@|-(?=\S*\.whl))v?(\d{1,4}\.\d{1,4}(\.\d{1,4})?(?:\.?(?:post|dev|rc|a|b)\d{1,4})?)(?!\d)\S*)");
  if (given.size() > kLongest || given.find_first_of("=@.") == std::string::npos) return;
  std::string word = lower_case(given.substr(0, given.find(';')));  // markers follow
  std::erase(word, ' ');
  std::smatch match;
  if (!std::regex_match(word, match, form)) return;
  if (match[2] == "=" && !installs) return;           // a variable of the launch
  if (match[2] == "~=" && !match[4].matched) return;  // ~=0.12 takes any 0.x from 0.12 on
  std::string package = match[1];
  std::ranges::replace(package, '_', '-');
  releases[package] = match[3];
}

/// git clone [-b v0.12.0] .../vllm, git checkout v0.12.0 in what was cloned last.
void add_checkout(const Words& command, Variables& releases) {
  constexpr const char* kCloned = "git clone";
  for (size_t i = 0; i < command.size(); ++i) {
    std::string name = lower_case(std::filesystem::path(command[i]).stem().string());
    if (command[i].find('/') != std::string::npos && is_among(kPackages, name))
      releases[kCloned] = name;
  }
  static const std::regex tag(R"((?:--branch=|tags/)?v?(\d{1,4}\.\d{1,4}\.\d{1,4}\S{0,20}))");
  const auto cloned = releases.find(kCloned);
  for (const std::string& word : command) {
    std::smatch match;
    if (cloned != releases.end() && std::regex_match(word, match, tag))
      releases[cloned->second] = match[1];
  }
}

}  // namespace

void add_installed(const Words& command, Variables& releases, const Variables& written) {
  constexpr std::string_view kIdle[] = {"echo", "printf", "#"};
  const auto has = [&](const char* word) { return std::ranges::count(command, word) > 0; };
  if (command.empty() || is_among(kIdle, command.front()) || has("uninstall")) return;
  const bool installs = has("install") || has("create") || has("add");  // conda create, pixi add
  if (command.front() == "git") return add_checkout(command, releases);
  for (const std::string& word : command) {
    if (!installs && is_among(kLaunches, std::filesystem::path(word).filename().string())) return;
    if (installs && is_among(kPackages, word)) releases.erase(word);  // the newest
    add_release(word, installs, releases);
    const auto file = written.find(file_variable(word));  // pip install -r FILE
    // A file that was read is marked among the releases: it would be read for each word that names
    // it.
    if (!installs || file == written.end() || !releases.emplace("-r " + word, "").second) continue;
    for (const std::string_view line : split_text(file->second, "\n"))
      add_release(std::string(line.substr(0, line.find('#'))), installs, releases);
  }
}

void add_notebook_installs(const std::string& text, Variables& releases) {
  for (std::string_view line : split_text(text, "\n")) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with('!') && !line.starts_with('%')) continue;
    Words words;
    for (const std::string_view word : split_text(line.substr(1), " \t\r'\""))
      words.emplace_back(word);
    add_installed(words, releases);
  }
}

}  // namespace plimsoll::cli
