// Launches in a Dockerfile: the program of ENTRYPOINT and CMD on the image of FROM (Docker's
// reference, "Overview of Dockerfile instructions").
#include "base/json.h"
#include "base/lower_case.h"
#include "base/split_text.h"
#include "cli/plan/paste/shell_words.h"

namespace plimsoll::cli {
namespace {

/// Instructions, each in one line: without comments, continued lines joined.
std::vector<std::string> instructions_of(const std::string& text) {
  std::vector<std::string> instructions;
  bool continues = false;
  for (std::string_view line : split_text(text, "\n")) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (!continues) instructions.emplace_back();
    continues = line.ends_with('\\');
    if (continues) line.remove_suffix(1);
    instructions.back() += std::string(line.substr(first)) + " ";
  }
  return instructions;
}

/// The words of ENTRYPOINT and CMD: a JSON array, or a shell's line.
Words program_of(const std::string& rest) {
  try {
    return parse_json<Json>(rest).get<Words>();
  } catch (const JsonError&) {
  } catch (const Json::exception&) {
  }
  return {"sh", "-c", rest};
}

/// ENV NAME=VALUE ..., ENV NAME VALUE and ARG NAME=VALUE.
void read_settings(const std::string& rest, Variables& variables) {
  Variables before = variables;
  for (const Words& words : shell_commands("env " + rest, before)) {
    if (words.size() == 3 && !is_assignment(words[1])) variables[words[1]] = words[2];
    for (const std::string& word : words)
      if (is_assignment(word)) assign(variables, word);
  }
}

}  // namespace

std::optional<PastedLaunch> launch_of_dockerfile(const std::string& text) {
  PastedLaunch launch;
  Words entrypoint;
  Words command;
  for (const std::string& instruction : instructions_of(text)) {
    const size_t blank = std::min(instruction.find_first_of(" \t"), instruction.size());
    const std::string keyword = lower_case(instruction.substr(0, blank));
    const std::string rest = instruction.substr(blank);
    if (keyword == "from") {
      const Words words = shell_commands(instruction, launch.variables).at(0);
      const size_t image = words.size() > 1 && words[1].starts_with("--") ? 2 : 1;
      if (image >= words.size()) return std::nullopt;
      launch.image = words[image];
      entrypoint = command = {};
    } else if (launch.image.empty() && keyword != "arg") {
      return std::nullopt;
    } else if (keyword == "env" || keyword == "arg") {
      read_settings(rest, launch.variables);
    } else if (keyword == "run") {
      for (const Words& words : shell_commands(rest, launch.variables))
        for (const std::string& word : words) add_release(word, launch.releases);
    } else if (keyword == "entrypoint") {
      entrypoint = program_of(rest);
    } else if (keyword == "cmd") {
      command = program_of(rest);
    }
  }
  if (entrypoint.empty() && command.empty()) return std::nullopt;
  if (!read_container_command(entrypoint, command, launch)) return std::nullopt;
  return launch;
}

}  // namespace plimsoll::cli
