// Launches in a Dockerfile: the program of ENTRYPOINT and CMD on the image of FROM (Docker's
// reference, "Overview of Dockerfile instructions").
#include <cctype>
#include <optional>
#include <regex>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "base/split_text.h"
#include "cli/plan/paste/shell/shell_words.h"

namespace plimsoll::cli {
namespace {

/// What FROM begins and other stages may build on.
struct Stage {
  PastedLaunch launch;
  Words entrypoint, command;
};

/// What begins a here-document, and the line that ends it.
struct Document {
  size_t at = 0, size = 0;  // the mark's place in its instruction
  std::string end;          // empty: there is none
  bool strips_tabs = false;
};

/// The first here-document of RUN, COPY or ADD: a word of its own, outside quotes.
Document document_of(const std::string& instruction) {
  static const std::regex form(R"(\d{0,9}<<(-?)(['"]?)([^<'"\s]{1,100})\2)");
  const size_t blank = std::min(instruction.find_first_of(" \t"), instruction.size());
  const std::string keyword = lower_case(instruction.substr(0, blank));
  if (keyword != "run" && keyword != "copy" && keyword != "add") return {};
  char quote = 0;
  for (size_t at = blank; at < instruction.size(); ++at) {
    const char c = instruction[at];
    const bool begins = quote == 0 && (instruction[at - 1] == ' ' || instruction[at - 1] == '\t');
    if (begins && (c == '<' || std::isdigit(static_cast<unsigned char>(c)) != 0)) {
      const size_t end = std::min(instruction.find_first_of(" \t", at), instruction.size());
      const std::string word = instruction.substr(at, end - at);
      std::smatch match;
      if (word.size() < 200 && std::regex_match(word, match, form))
        return {at, word.size(), match[3], match[1].length() > 0};
    }
    if (quote == 0 && c == '\\') {
      ++at;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
  }
  return {};
}

/// The line behind that ends the document; nothing where there is none.
std::optional<size_t> end_of(const Document& document, std::span<const std::string> lines,
                             size_t from) {
  for (size_t at = from; at < lines.size(); ++at) {
    const size_t tabs = document.strips_tabs ? lines[at].find_first_not_of('\t') : 0;
    if (tabs != std::string::npos && lines[at].substr(tabs) == document.end) return at;
  }
  return std::nullopt;
}

/// Instructions without comments, continued lines joined; a here-document is the text of its
/// instruction, line by line.
std::vector<std::string> instructions_of(const std::string& text) {
  constexpr size_t kMostDocuments = 100;  // each is looked for to the text's end
  std::vector<std::string> lines, instructions;
  for (std::string_view line : split_text(text, "\n")) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  bool continues = false;
  size_t documents = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (!continues) instructions.emplace_back();
    continues = line.ends_with('\\');
    if (continues) line.remove_suffix(1);
    std::string& instruction = instructions.back();
    instruction += std::string(line.substr(first)) + " ";
    if (continues || documents == kMostDocuments) continue;
    const Document document = document_of(instruction);
    if (document.end.empty()) continue;
    ++documents;
    const std::optional<size_t> end = end_of(document, lines, i + 1);
    if (!end) continue;
    instruction.erase(document.at, document.size);
    while (++i < *end) instruction.append(lines[i]).append("\n");
  }
  return instructions;
}

/// The words of ENTRYPOINT and CMD: a JSON array, or a shell's line.
Words program_of(const std::string& rest) {
  const size_t first = rest.find_first_not_of(" \t");
  if (first == std::string::npos || rest[first] != '[') return {"sh", "-c", rest};
  try {
    return parse_json<Json>(rest).get<Words>();
  } catch (const JsonError&) {
  } catch (const Json::exception&) {
  }
  fail(ExitCode::usage,
       "--from: {}: no JSON array of words, as Docker wants it, such as [\"vllm\", \"serve\"]",
       rest.substr(first, 60));
}

/// ENV NAME=VALUE ..., ENV NAME VALUE and ARG NAME=VALUE.
void read_settings(const std::string& rest, Variables& known, Variables& settings) {
  for (const Words& words : shell_commands("env " + rest, known)) {
    if (words.size() == 3 && !is_assignment(words[1])) settings[words[1]] = words[2];
    for (const std::string& word : words)
      if (is_assignment(word)) assign(settings, word);
  }
  for (const auto& [name, value] : settings) known[name] = value;
}

/// Notes what RUN installs; a line that is no shell's starts nothing.
void read_run(const std::string& rest, Stage& stage, Variables known) {
  try {
    for (const Words& words : shell_commands(rest, known))
      add_installed(words, stage.launch.releases);
  } catch (const Error&) {
  }
}

}  // namespace

std::optional<PastedLaunch> launch_of_dockerfile(const std::string& text) {
  constexpr size_t kMostInstructions = 1000;  // each copies the variables before it
  std::map<std::string, Stage> stages;
  Stage stage;
  std::string name;
  Variables known;  // of ENV and ARG
  bool begun = false;
  const std::vector<std::string> instructions = instructions_of(text);
  if (instructions.size() > kMostInstructions) return std::nullopt;
  for (const std::string& instruction : instructions) {
    const size_t blank = std::min(instruction.find_first_of(" \t"), instruction.size());
    const std::string keyword = lower_case(instruction.substr(0, blank));
    const std::string rest = instruction.substr(blank);
    Variables arguments;
    if (keyword == "from") {
      const std::string names = expand_variables(rest, known);
      Words words;
      for (const std::string_view word : split_text(names, " \t"))
        if (!word.empty() && !word.starts_with("--")) words.emplace_back(word);
      if (words.empty()) return std::nullopt;
      if (begun) stages[name] = stage;
      const auto base = stages.find(lower_case(words[0]));
      stage = base == stages.end() ? Stage() : base->second;
      if (base == stages.end()) stage.launch.image = words[0];
      name = words.size() > 2 ? lower_case(words[2]) : "";
      begun = true;
    } else if (!begun && keyword != "arg") {
      return std::nullopt;
    } else if (keyword == "arg") {
      read_settings(rest, known, arguments);
    } else if (keyword == "env") {
      read_settings(rest, known, stage.launch.variables);
    } else if (keyword == "run") {
      read_run(rest, stage, known);
    } else if (keyword == "entrypoint") {
      stage.entrypoint = program_of(expand_variables(rest, known));
    } else if (keyword == "cmd") {
      stage.command = program_of(expand_variables(rest, known));
    }
  }
  if (stage.entrypoint.empty() && stage.command.empty()) return std::nullopt;
  if (!read_container_command(stage.entrypoint, stage.command, stage.launch)) return std::nullopt;
  return stage.launch;
}

}  // namespace plimsoll::cli
