#include "batch/files/manifest.h"

#include <catch2/catch.hpp>

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
