// Lines that were in hand when the process died.
#include "batch/files/in_flight.h"

#include <catch2/catch.hpp>

#include "batch/scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Scratch;

namespace {

/// A life that ends without an end: what it wrote, as if the process had been killed.
void die(const Scratch& scratch, const std::string& notes) {
  scratch.write("out.running", scratch.read("out.running") + notes);
}

}  // namespace

TEST_CASE("a line that is in hand at two deaths is told, others are not") {
  const Scratch scratch;
  const std::string out = scratch.path("out");
  die(scratch, "+4\n+5\n+6\n-5\n" + std::string(InFlight::kMark));
  {
    InFlight second(out);
    CHECK(second.deaths(4) == 1);
    CHECK(second.deaths(5) == 0);
    CHECK(second.deaths(6) == 1);
    second.begin(4);
    second.end(4);
    CHECK(second.deaths(4) == 0);
    second.begin(6);
    second.mark_crash();
  }
  const InFlight third(out);
  CHECK(third.deaths(4) == 0);
  CHECK(third.deaths(6) == InFlight::kTooMany);
}

TEST_CASE("a line in hand at one death only is not told again by the next") {
  const Scratch scratch;
  const std::string out = scratch.path("out");
  die(scratch, "+4\n+5\n" + std::string(InFlight::kMark));
  {
    InFlight second(out);
    second.begin(5);
    second.mark_crash();
  }
  const InFlight third(out);
  CHECK(third.deaths(4) == 1);
  CHECK(third.deaths(5) == InFlight::kTooMany);
}

TEST_CASE("a death from outside says nothing of the lines, and forgets nothing") {
  const Scratch scratch;
  const std::string out = scratch.path("out");
  die(scratch, "+4\n+5\n" + std::string(InFlight::kMark));
  {
    InFlight notes(out);
    notes.begin(4);
    die(scratch, "");  // SIGKILL: nothing is written any more
  }
  die(scratch, "+4\n+5\n+7\n");
  const InFlight notes(out);
  CHECK(notes.deaths(4) == 1);
  CHECK(notes.deaths(5) == 1);
  CHECK(notes.deaths(7) == 0);
}

TEST_CASE("what is cut short or none of ours does no harm, and a good end leaves nothing") {
  const Scratch scratch;
  const std::string out = scratch.path("out");
  for (const char* notes : {"+4\n+5", "!!!", "\n\n!\n", "\xff\xfe\n+\n-\n?\n"}) {
    INFO(notes);
    scratch.write("out.running", notes);
    { const InFlight in_flight(out); }
    scratch.write("out.running", "");
    { const InFlight in_flight(out); }
    CHECK(!scratch.has("out.running"));
  }
  InFlight many(out);
  for (uint64_t line = 1; line < 200'000; ++line) {
    many.begin(line);
    many.end(line);
  }
  CHECK(scratch.read("out.running").size() < (2u << 20));
}
