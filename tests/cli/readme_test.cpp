// The examples of README.md, run as they stand there.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/program.h"

using namespace plimsoll;

namespace {

struct Example {
  std::string command;
  std::vector<std::string> shown;  // lines of its output; "...": some are left out there
};

/// The commands ("$ ...") of the blocks that begin with ```console.
std::vector<Example> examples() {
  std::ifstream readme(PLIMSOLL_SOURCE_DIR "/README.md");
  std::vector<Example> found;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("```")) {
      inside = line == "```console";
    } else if (inside && line.starts_with("$ ")) {
      found.push_back({line.substr(2), {}});
    } else if (inside && !found.empty()) {
      found.back().shown.push_back(line);
    }
  }
  return found;
}

/// Looks for the shown lines in the output, one after the other. A line that ends with "..." is the
/// beginning of one.
void check_shown(const std::vector<std::string>& shown, const std::string& output) {
  size_t from = 0;
  for (const std::string& line : shown) {
    if (line == "...") continue;
    INFO(line);
    INFO(output);
    const bool cut = line.ends_with("...");
    const std::string wanted = cut ? line.substr(0, line.size() - 3) : line + "\n";
    const size_t at = output.find(wanted, from);
    REQUIRE(at != std::string::npos);
    CHECK((at == 0 || output[at - 1] == '\n'));
    from = at + wanted.size();
  }
}

}  // namespace

TEST_CASE("the examples of README.md print what they show") {
  const test::Scratch scratch;
  std::filesystem::create_directory_symlink(PLIMSOLL_SOURCE_DIR "/samples",
                                            scratch.path("samples"));
  const bool has_jq = test::shell(scratch, "jq --version").status == 0;
  const std::vector<Example> all = examples();
  REQUIRE(all.size() == 15);
  for (const Example& example : all) {
    INFO(example.command);
    const std::string_view cat = "cat ";
    if (example.command.starts_with(cat)) {  // the file is the reader's own
      std::string text;
      for (const std::string& line : example.shown) text += line + "\n";
      scratch.write(example.command.substr(cat.size()), text);
      continue;
    }
    if (example.command.starts_with("jq ") && !has_jq) {
      WARN("skipped: jq is not there");
      continue;
    }
    check_shown(example.shown, test::shell(scratch, example.command + " 2>&1").out);
  }
}
