// README.md's table of models lists the architectures of families.cpp, no more and no fewer.
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>

#include "model/families/family.h"

using namespace plimsoll::model;

namespace {

/// The names in backticks in the rows below the heading that contains `mark`.
std::set<std::string> names_below(const std::string& mark) {
  std::ifstream readme(PLIMSOLL_SOURCE_DIR "/README.md");
  std::set<std::string> names;
  bool below = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("| ") && line.find(mark) != std::string::npos) {
      below = true;
    } else if (below && !line.starts_with("|")) {
      break;
    } else if (below) {
      for (size_t open = line.find('`'); open != std::string::npos;) {
        const size_t close = line.find('`', open + 1);
        INFO(line);
        REQUIRE(close != std::string::npos);
        CHECK(names.insert(line.substr(open + 1, close - open - 1)).second);
        open = line.find('`', close + 1);
      }
    }
  }
  return names;
}

/// The architectures of a kind as the table writes them: without `ending`.
std::set<std::string> families_of(FamilyKind kind, const std::string& ending) {
  std::set<std::string> names;
  for (const Family& family : families()) {
    if (family.kind != kind || !family.is_served()) continue;
    std::string name(family.architecture);
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
    names.insert(name);
  }
  return names;
}

}  // namespace

TEST_CASE("README.md names every architecture that run serves") {
  CHECK(names_below("without `ForCausalLM`") == families_of(FamilyKind::text, "ForCausalLM"));
  CHECK(names_below("without `ForConditionalGeneration`") ==
        families_of(FamilyKind::multimodal, "ForConditionalGeneration"));
}
