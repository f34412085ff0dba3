#include "batch/files/manifest.h"

#include <catch2/catch.hpp>

#include "batch/files/same_run.h"
#include "batch/scratch.h"

using namespace plimsoll;

TEST_CASE("counts in a record that are none make it no record") {
  const test::Scratch scratch;
  const std::string path = scratch.path("out.run.json");
  batch::Manifest manifest;
  manifest.job = OrderedJson::object();
  manifest.notes = OrderedJson::object();
  manifest.ok = 7;
  batch::write_manifest(path, manifest);
  REQUIRE(batch::read_manifest(path)->ok == 7);
  const std::string sound = scratch.read("out.run.json");
  const size_t at = sound.find("\"ok\": 7") + 6;
  for (const char* count : {"-1", "1.5", "18446744073737951615", "\"7\"", "null"}) {
    INFO(count);
    scratch.write("out.run.json", std::string(sound).replace(at, 1, count));
    CHECK_THROWS_WITH(batch::read_manifest(path), Catch::Contains("is no record"));
  }
}

TEST_CASE("what is said of another input is true of the run that it is given to") {
  const test::Scratch scratch;
  const std::string texts = scratch.path("out.run.texts");
  const auto cure = [&](uint64_t lines, uint64_t failed, uint64_t kept, batch::RunState state) {
    batch::Manifest run;
    run.job["lines"] = batch::lines_json({.first = 0, .count = lines}, 4);
    run.state = state;
    run.failed = failed;
    run.texts = kept;
    return batch::cure_of("input.xxh3: 1 then, 2 now", batch::Failed::retry, run, texts);
  };
  using State = batch::RunState;
  CHECK_THAT(cure(4, 0, 0, State::complete), Catch::Contains("no line of it failed"));
  CHECK_THAT(cure(2, 0, 0, State::complete), Catch::Contains("--publish ended this run"));
  CHECK_THAT(cure(4, 1, 0, State::complete), Catch::Contains("--publish ended this run"));
  CHECK_THAT(cure(2, 0, 2, State::complete), Catch::Contains(texts + " back"));
  CHECK_THAT(cure(2, 0, 0, State::partial), Catch::Contains("until the run has ended"));
}
