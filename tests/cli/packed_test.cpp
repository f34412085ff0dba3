// gzip and zstd, in and out.
#include <catch2/catch.hpp>

#include "cli/program.h"

using namespace plimsoll;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

std::string prompts() {
  std::string input;
  for (int i = 0; i < 30; ++i) {
    input += i == 9 ? "{broken\n"
                    : "{\"prompt\":\"Enter " + std::to_string(i) +
                          "\",\"max_tokens\":" + std::to_string(1 + i * 7 % 5) + "}\n";
  }
  return input;
}

}  // namespace

TEST_CASE("packed input and output are the plain ones, packed") {
  const Scratch scratch;
  scratch.write("in", prompts());
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 3);
  for (const char* tool : {"gzip", "zstd -q"}) {
    INFO(tool);
    const std::string end = std::string(tool).starts_with("gzip") ? "gz" : "zst";
    if (shell(scratch, std::string(tool) + " --version > log").status != 0) {
      WARN(tool << " is not there");
      continue;
    }
    CHECK(shell(scratch, std::string(tool) +
                             " -c in > packed; plimsoll run $MODEL -q -i packed -o out." + end)
              .status == 3);
    CHECK(shell(scratch, std::string(tool) + " -dc out." + end + " | cmp - whole").status == 0);
    // Gone on with from the packed output: what failed is tried again, and fails again.
    CHECK(shell(scratch, "plimsoll run $MODEL -q -i packed --retry-failed -o out." + end).status ==
          3);
    CHECK(shell(scratch, std::string(tool) + " -dc out." + end + " | cmp - whole").status == 0);
    CHECK(shell(scratch, "cat packed | plimsoll run $MODEL -q | cmp - whole").status == 0);
  }
}

TEST_CASE("the lines before the place where packed data breaks off are answered") {
  const Scratch scratch;
  std::string input;
  for (int i = 0; i < 4'000; ++i) {
    input += "{\"prompt\":[" + std::to_string(i * 31 % 1'999) + "],\"max_tokens\":1}\n";
  }
  scratch.write("in", input);
  const Outcome outcome = shell(scratch,
                                "gzip -c in > packed; truncate -s -3000 packed; "
                                "plimsoll run $MODEL -i packed -o out");
  CHECK(outcome.status == 4);
  CHECK_THAT(outcome.err,
             Catch::Contains("cut off") && Catch::Contains("lines before are answered"));
  // Nobody knows how many lines the whole has, so no part of it can be told.
  for (const char* flags : {"--part 0/2 -o part", "--strict -o strict"}) {
    INFO(flags);
    const Outcome refused = shell(scratch, std::string("plimsoll run $MODEL -i packed ") + flags);
    CHECK(refused.status == 4);
    CHECK_THAT(refused.err, Catch::Contains("cut off"));
  }
  const size_t answered = json_lines(scratch.read("out.part")).size();
  CHECK(answered > 100);
  CHECK(answered < 4'000);
  CHECK(shell(scratch, "plimsoll run --publish out").status == 0);
  CHECK(json_lines(scratch.read("out")).size() == answered);
}

TEST_CASE("a plain input beside a packed one is answered in the file's order alone") {
  const Scratch scratch;
  scratch.write("in", prompts());
  REQUIRE(shell(scratch,
                "gzip -c in > packed.gz; cat in in > both; "
                "plimsoll run $MODEL -q -i both -o whole")
              .status == 3);
  for (const char* inputs : {"-i in -i packed.gz", "-i packed.gz -i in"}) {
    const std::string run = fmt::format("plimsoll run $MODEL -q {} --overwrite -o out", inputs);
    for (const char* order : {"file", "auto"}) {
      INFO(inputs << " " << order);
      const Outcome outcome = shell(scratch, run + " --order " + order);
      INFO(outcome.err);
      CHECK(outcome.status == 3);
      CHECK(shell(scratch, "cmp out whole").status == 0);
    }
    const Outcome refused = shell(scratch, run + " --order prefix");
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Catch::Contains("the input is packed"));
  }
}
