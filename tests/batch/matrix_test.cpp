// MATRIX.md says which test lets which fault happen: no row may be missing, and the tests must be
// there.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <sstream>

namespace {

std::string text_of(const std::string& path) {
  const std::ifstream file(PLIMSOLL_SOURCE_DIR "/tests/" + path);
  std::stringstream text;
  text << file.rdbuf();
  // Names that the formatter has cut in two.
  return std::regex_replace(text.str(), std::regex("\"\\s*\n\\s*\""), "");
}

}  // namespace

TEST_CASE("every row of the fault matrix names tests that are there, or says why there is none") {
  std::istringstream matrix(text_of("batch/MATRIX.md"));
  const std::regex row("\\| (\\d+) \\| ([^|]+) \\| ([^|]*) \\| ([^|]*) \\|");
  const std::regex test("`(\\S+) \"([^`]+)\"`");
  int expected = 1;
  for (std::string line; std::getline(matrix, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row)) continue;
    INFO(line);
    CHECK(std::stoi(cells[1]) == expected++);
    const std::string tests = cells[3];
    CHECK((!tests.empty() || cells[4].length() > 10));
    for (std::sregex_iterator at(tests.begin(), tests.end(), test), end; at != end; ++at) {
      CHECK_THAT(text_of((*at)[1].str() + ".cpp"),
                 Catch::Contains("TEST_CASE(\"" + (*at)[2].str() + "\""));
    }
  }
  CHECK(expected == 101);
}
