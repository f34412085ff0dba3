// Files that a pasted launch names: settings, and what a container has mounted.
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/split_text.h"
#include "cli/arguments.h"
#include "cli/plan/options.h"
#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {
namespace {

/// The host's side of a mount, without the shell's words for this user's and this folder.
std::string host_path(std::string path) {
  const char* const home = std::getenv("HOME");
  const std::string user = home == nullptr ? "~" : home;
  for (const auto& [name, value] : {std::pair<std::string_view, std::string>{"$(pwd)", "."},
                                    {"${PWD}", "."},
                                    {"$PWD", "."},
                                    {"${HOME}", user},
                                    {"$HOME", user},
                                    {"~", user}}) {
    if (path.starts_with(name)) return value + path.substr(name.size());
  }
  return path;
}

}  // namespace

void add_mount(const std::string& text, PastedLaunch& launch) {
  std::string host, container;
  if (text.find("target=") != std::string::npos || text.find("dst=") != std::string::npos ||
      text.find("destination=") != std::string::npos) {
    for (const std::string_view field : split_text(text, ",")) {
      const std::string_view name = field.substr(0, field.find('='));
      const std::string value(field.substr(std::min(field.size(), name.size() + 1)));
      if (name == "source" || name == "src") host = value;
      if (name == "target" || name == "dst" || name == "destination") container = value;
    }
  } else {
    const std::vector<std::string_view> parts = split_text(text, ":");
    if (parts.size() < 2) return;
    host = parts[0];
    container = parts[1];
  }
  while (container.size() > 1 && container.ends_with('/')) container.pop_back();
  if (!host.empty() && container.starts_with('/'))
    launch.mounts.emplace(container, host_path(host));
}

void use_mounts(PastedLaunch& launch) {
  constexpr size_t kLongest = 4096;  // bytes of a path
  for (std::string& word : launch.words) {
    const size_t begin = word.starts_with('-') ? word.find('=') + 1 : 0;  // npos + 1 is 0
    const std::string path = word.substr(begin);
    if (!path.starts_with('/') || path.size() > kLongest) continue;
    for (size_t end = path.size(); end > 0 && end != std::string::npos;
         end = path.rfind('/', end - 1)) {
      const auto mount = launch.mounts.find(path.substr(0, end));
      if (mount == launch.mounts.end()) continue;
      const std::string file = mount->second + path.substr(end);
      std::error_code ignored;
      const bool is_here =
          std::filesystem::exists(file, ignored) || launch.variables.contains(file_variable(file));
      if (is_here) word.replace(begin, std::string::npos, file);
      break;
    }
  }
}

void read_config_file(PastedLaunch& launch) {
  const std::optional<std::string> file =
      take_file_flag(launch.words, [](const std::string& flag) { return flag == "--config"; });
  if (!file) return;
  const std::optional<std::string> text = settings_text(*file, launch.variables);
  if (!text) {
    launch.left_out.push_back(fmt::format("--config {} (not on this machine)", *file));
    return;
  }
  Words flags = flags_of_yaml(*text);
  const bool names_model = !launch.words.empty() && !launch.words.front().starts_with("-");
  if (names_model)
    std::erase_if(flags, [](const std::string& flag) { return flag.starts_with("--model="); });
  launch.words.insert(launch.words.begin() + (names_model ? 1 : 0), flags.begin(), flags.end());
}

std::optional<std::string> take_file_flag(Words& words,
                                          const std::function<bool(const std::string&)>& is_flag) {
  const auto at = std::ranges::find_if(words, [&](const std::string& word) {
    return word.starts_with('-') && is_flag(word.substr(0, word.find('=')));
  });
  if (at == words.end()) return std::nullopt;
  const size_t equals = at->find('=');
  const bool joined = equals != std::string::npos;
  if (!joined && at + 1 == words.end()) return std::nullopt;
  std::string file = joined ? at->substr(equals + 1) : *(at + 1);
  words.erase(at, at + (joined ? 1 : 2));
  return file;
}

std::optional<std::string> settings_text(const std::string& file, const Variables& pasted) {
  const auto written = pasted.find(file_variable(file));
  if (written != pasted.end()) return written->second;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return std::nullopt;
  return read_text_file(file, 1 << 20);
}

}  // namespace plimsoll::cli
