// Releases of vLLM by their names.
#include "model/vllm/version.h"

#include <catch2/catch.hpp>

#include "base/error.h"

using namespace plimsoll;
using namespace plimsoll::model;

TEST_CASE("a release is what its numbers say, whatever follows them") {
  const auto [text, version] = GENERATE(table<const char*, const char*>({
      {"0.19", "0.19.0"},
      {"0.19.1", "0.19.1"},
      {"v0.19.0rc1", "0.19.0"},
      {"0.6.1.post2", "0.6.1"},
      {"0.9.0.1", "0.9.0"},
      {"0.33.0+cu129", "0.33.0"},
      {"0.99.7", "0.99.7"},
  }));
  INFO(text);
  CHECK(version_text(parse_version(text)) == version);
  CHECK_FALSE(is_development_build(text));
}

TEST_CASE("a development build is the last release before the one that it leads to") {
  // The last patches of 0.8, 0.20 and 0.32 are 5, 2 and 0.
  const auto [text, version] = GENERATE(table<const char*, const char*>({
      {"0.9.0.dev3", "0.8.5"},
      {"0.9.1.dev3", "0.9.0"},
      {"0.21.0.dev3", "0.20.2"},
      {"0.32.1.dev4", "0.32.0"},
      {"0.33.0.dev12", "0.32.0"},
      {"0.33.0.dev12+g0123abc", "0.32.0"},
      {"0.33.0rc1.dev5", "0.32.0"},
      {"v0.33.0dev", "0.32.0"},
      {"0.33.1.dev12+g0123abc.d20261101", "0.33.0"},
  }));
  INFO(text);
  CHECK(version_text(parse_version(text)) == version);
  CHECK(is_development_build(text));
}

TEST_CASE("a development build behind the newest known release is planned as that one") {
  constexpr VllmVersion kNewest = kNewestRelease;
  const auto build_of = [](VllmVersion version) {
    return parse_version(version_text(version) + ".dev1");
  };
  CHECK(build_of(kNewest) < kNewest);
  CHECK(build_of({kNewest.major, kNewest.minor, kNewest.patch + 1}) == kNewest);
  CHECK(build_of({kNewest.major, kNewest.minor, kNewest.patch + 7}) == kNewest);
  CHECK(build_of({kNewest.major, kNewest.minor + 1, 0}) == kNewest);
  CHECK(build_of({kNewest.major, kNewest.minor + 5, 2}) == kNewest);
  CHECK(build_of({kNewest.major + 1, 0, 0}) == kNewest);
}

TEST_CASE("what is no version is refused with an example of one") {
  for (const char* text : {"", "0", "0.33.", "main", "0.33.0 ", "0,33", "1234567.0"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_version(text), Catch::Contains("expected a version such as"));
    CHECK_FALSE(is_development_build(text));
  }
}
