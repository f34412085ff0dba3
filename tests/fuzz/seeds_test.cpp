// Seeds of the fuzzers, past findings among them, through the same targets.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/targets.h"

using namespace plimsoll;

TEST_CASE("seeds and past findings of the fuzzers are read or refused, nothing else") {
  for (const fuzz::Target& target : fuzz::kTargets) {
    size_t seeds = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(PLIMSOLL_SOURCE_DIR "/tests/fuzz/seeds") / target.name)) {
      INFO(entry.path());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      CHECK_NOTHROW(target.read(bytes));
      ++seeds;
    }
    INFO(target.name);
    CHECK(seeds > 0);
  }
}
