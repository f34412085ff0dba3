// The file of texts beside an output: what cannot be one is told when a run starts, because the
// file is written at its end.
#include <catch2/catch.hpp>

#include "batch/other_user.h"
#include "batch/run_life.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Life;
using test::live;
using test::Scratch;

namespace {

std::string told_by(const Scratch& scratch, const Life& life = {}) {
  try {
    (void)live(scratch, life);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a folder with the name of a file of texts is told at the start of each life") {
  for (const char* name : {"out.run.texts", "out.run.texts.part"}) {
    INFO(name);
    const Scratch scratch;
    scratch.write("in", test::life_input(20));
    const auto check_told = [&](const Life& life) {
      const size_t done = scratch.read("out.part").size();
      std::filesystem::create_directory(scratch.path(name));
      CHECK_THAT(told_by(scratch, life), Catch::Contains(std::string(name) + ": is a folder") &&
                                             Catch::Contains("move it away"));
      CHECK(scratch.read("out.part").size() == done);
      std::filesystem::remove(scratch.path(name));
    };
    check_told({});
    CHECK_FALSE(live(scratch, {.stop_after = 6}));
    check_told({});
    CHECK(live(scratch, {}));
    Life again;
    again.options.resume.failed = Failed::retry;
    check_told(again);
    std::filesystem::create_directory(scratch.path(name));
    CHECK(live(scratch, {}));  // nothing is left to do
  }
}

TEST_CASE("a file of texts that is not the run's is told when the run goes on") {
  const Scratch scratch;
  scratch.write("in", test::life_input(20));
  CHECK_FALSE(live(scratch, {.stop_after = 6}));
  scratch.write("out.run.texts", "mine");
  CHECK_THAT(told_by(scratch),
             Catch::Contains("out.run.texts: is not the file that this run left there (4 bytes, "
                             "not 0); move it away"));
  CHECK(scratch.read("out.run.texts") == "mine");
}

TEST_CASE("files of texts that may not be opened are told at the start") {
  const std::pair<const char*, const char*> names[] = {
      {"out.run.texts", "give yourself the right to read it (chmod u+r)"},
      {"out.run.texts.part", "remove it"}};
  for (const auto& [name, cure] : names) {
    INFO(name);
    const Scratch scratch;
    scratch.write("in", test::life_input(20));
    CHECK_FALSE(live(scratch, {.stop_after = 6}));
    std::filesystem::permissions(scratch.write(name, "12345678"), std::filesystem::perms::none);
    CHECK_THAT(test::as_other_user(scratch, [&] { return told_by(scratch); }),
               Catch::Contains(std::string(name) + ": cannot be opened: Permission denied") &&
                   Catch::Contains(cure));
  }
}
