// What each flag moves in a plan: the launches of tests/effects, whose README says how they are
// written and renewed.
#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/program.h"

using namespace plimsoll;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

/// What a command answered, by name of the field: "kv_cache_bytes" is "54799952853".
using Answer = std::map<std::string, std::string>;
using Lines = std::vector<std::string>;

struct Launch {
  std::string words;  // as they stand in the file
  size_t base;        // the launch beside which the words are flags; of "plan MODEL ..." itself
  std::string command;
  Lines expected;
};

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Launch> read_launches(const fs::path& file) {
  std::vector<Launch> launches;
  size_t base = 0;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("  ")) {
      launches.back().expected.push_back(line.substr(2));
    } else if (line.starts_with("plan ")) {
      base = launches.size();
      launches.push_back({line, base, line, {}});
    } else {
      launches.push_back({line, base, launches[base].words + " " + line, {}});
    }
  }
  return launches;
}

bool is_flat(const Json& value) {
  return std::ranges::none_of(value, [](const Json& inner) { return inner.is_structured(); });
}

/// A part, a bound or a proposal in one line, without the source of its figures, which may be said
/// in other words.
std::string one_line(const Json& entry) {
  if (!entry.is_object()) return entry.dump();
  std::string line;
  for (const auto& [key, value] : entry.items()) {
    const bool usual = key == "inside_budget" && value == true;
    if (key == "name" || key == "source" || usual) continue;
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", key, value.dump());
  }
  return line;
}

/// True for what follows from the KV cache's bytes: edges of tokens, blocks and requests, and the
/// first boot's.
bool follows(const std::string& name) {
  const bool edge = name.find("bounds/") != std::string::npos || name.starts_with("cold_boot/");
  return edge && !name.ends_with("kv_cache_bytes") && !name.ends_with("bounds");
}

void flatten(const Json& value, const std::string& name, Answer& answer) {
  if (follows(name)) return;
  if (!value.is_structured() || (!name.empty() && is_flat(value))) {
    answer[name] = one_line(value);
    return;
  }
  size_t number = 0;
  for (const auto& [key, inner] : value.items()) {
    if (key == "model" || key == "schema_version") continue;
    const bool named = value.is_array() && inner.is_object() && inner.contains("name");
    const std::string last = named              ? inner["name"].get<std::string>()
                             : value.is_array() ? fmt::format("{:02}", number)
                                                : key;
    flatten(inner, name.empty() ? last : name + "/" + last, answer);
    ++number;
  }
}

Answer answer_of(const Scratch& scratch, const std::string& number) {
  Answer answer;
  const std::string out = scratch.read(number + ".out");
  const Lines said = lines_of(scratch.read(number + ".err"));
  answer["status"] = scratch.read(number + ".status");
  for (size_t i = 0; i < said.size(); ++i) answer[fmt::format("stderr/{:02}", i)] = said[i];
  if (out.starts_with("{")) {
    flatten(parse_json<Json>(out), "", answer);
  } else {
    const Lines text = lines_of(out);
    for (size_t i = 0; i < text.size(); ++i) answer[fmt::format("stdout/{:03}", i)] = text[i];
  }
  return answer;
}

/// The whole answer, or what differs from the base's: a field that has gone is "NAME -".
Lines written(const Answer& answer, const Answer& base) {
  const auto is_refusal = [&] {
    return std::none_of(answer.begin(), answer.end(), [](const auto& field) {
      return field.first != "status" && !field.first.starts_with("stderr/");
    });
  };
  const bool is_text = answer.contains("stdout/000") || is_refusal();
  Lines lines;
  for (const auto& [name, value] : answer) {
    const auto before = base.find(name);
    if (before == base.end() || before->second != value) lines.push_back(name + " " + value);
  }
  for (const auto& [name, value] : base) {
    if (!is_text && !answer.contains(name)) lines.push_back(name + " -");
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// The lines of one answer that another lacks; both are in order.
Lines lacking(const Lines& one, const Lines& other) {
  Lines lines;
  std::ranges::set_difference(one, other, std::back_inserter(lines));
  return lines;
}

/// A folder with what the launches name: published configs, and the samples of the project.
void fill(const Scratch& scratch) {
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  for (const char* folder : {"samples/plans/configs", "tests/data/configs",
                             "tests/data/vllm/configs", "tests/data/engines/configs"}) {
    for (const auto& file : fs::directory_iterator(root / folder)) {
      const std::string name = file.path().filename();
      if (file.path().extension() == ".json" && !scratch.has(name))
        fs::create_symlink(file.path(), scratch.path(name));
    }
  }
  for (const char* sample : {"sample-model", "prompts.jsonl", "logs"})
    fs::create_symlink(root / "samples" / sample, scratch.path(sample));
}

/// What `plan` answers to each launch of a file.
std::vector<Answer> ask(const std::vector<Launch>& launches) {
  const Scratch scratch;
  fill(scratch);
  // What plan reads of its environment is of no launch here.
  std::string script = "export COLUMNS=80; unset ${!VLLM_@} CUDA_VISIBLE_DEVICES\n";
  for (size_t i = 0; i < launches.size(); ++i) {
    const std::string& command = launches[i].command;
    const bool as_json = command.find("--format") == std::string::npos;
    script += fmt::format("plimsoll {0}{1} >{2}.out 2>{2}.err; echo -n $? >{2}.status\n", command,
                          as_json ? " --format json" : "", i);
  }
  test::shell(scratch, script);
  std::vector<Answer> answers;
  for (size_t i = 0; i < launches.size(); ++i) {
    answers.push_back(answer_of(scratch, std::to_string(i)));
  }
  return answers;
}

}  // namespace

TEST_CASE("a flag moves in a plan what it moved before", "[effects]") {
  const bool renews = std::getenv("PLIMSOLL_RENEW_EFFECTS") != nullptr;
  size_t files = 0;
  for (const auto& file : fs::directory_iterator(PLIMSOLL_SOURCE_DIR "/tests/effects")) {
    if (file.path().extension() != ".txt") continue;
    ++files;
    const std::vector<Launch> launches = read_launches(file.path());
    const std::vector<Answer> answers = ask(launches);
    std::string text;
    for (size_t i = 0; i < launches.size(); ++i) {
      const Launch& launch = launches[i];
      const Lines found = written(answers[i], i == launch.base ? Answer{} : answers[launch.base]);
      text += launch.words + "\n";
      for (const std::string& line : found) text += "  " + line + "\n";
      if (renews) continue;
      INFO(file.path().filename().string() + ": " + launch.command);
      CHECK(lacking(launch.expected, found) == Lines{});
      CHECK(lacking(found, launch.expected) == Lines{});
    }
    if (renews) std::ofstream(file.path()) << text;
  }
  CHECK(files >= 10);
}
