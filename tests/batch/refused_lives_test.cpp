// A command that is refused leaves what a run has published under its names.
#include <catch2/catch.hpp>

#include "batch/files/publish.h"
#include "batch/run_life.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Life;
using test::live;
using test::Scratch;

namespace {

/// A run with its failures apart, published with all lines or without some.
void publish(const Scratch& scratch, bool whole) {
  scratch.write("in", test::life_input(20));
  REQUIRE(live(scratch, {.stop_after = whole ? 100u : 12u, .errors_apart = true}) == whole);
  if (!whole) (void)publish_what_is_there(scratch.path("out"));
}

}  // namespace

TEST_CASE("published files keep their names and bytes when a damaged one is not gone on with") {
  for (const bool whole : {true, false}) {
    for (const Failed failed : {Failed::retry, Failed::keep}) {
      if (whole && failed == Failed::keep) continue;  // nothing is left to do
      for (const char* damaged : {"out", "bad", "out.run.texts"}) {
        INFO(damaged << ", whole: " << whole << ", retry: " << (failed == Failed::retry));
        const Scratch scratch;
        publish(scratch, whole);
        std::string text = scratch.read(damaged);
        text.empty() ? text = "short" : text.replace(0, 1, "x");  // no record begins so
        if (std::string_view(damaged) == "out.run.texts") text.resize(text.size() - 1);
        scratch.write(damaged, text);
        const std::string out = scratch.read("out"), bad = scratch.read("bad");
        REQUIRE(!out.empty());
        REQUIRE(!bad.empty());
        Life again{.errors_apart = true};
        again.options.resume.failed = failed;
        CHECK_THROWS_AS(live(scratch, again), Error);
        CHECK(scratch.read("out") == out);
        CHECK(scratch.read("bad") == bad);
        CHECK(!scratch.has("out.part"));
        CHECK(!scratch.has("bad.part"));
      }
    }
  }
}
