// Runs that go on where another one has stopped.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "cli/program.h"

namespace plimsoll::test {

/// Lines with answers of unlike lengths.
inline std::string prompts(int lines) {
  std::string input;
  for (int i = 0; i < lines; ++i) {
    input += "{\"id\":\"p" + std::to_string(i) + "\",\"prompt\":\"Enter " + std::to_string(i) +
             "\",\"max_tokens\":" + std::to_string(1 + i % 9) + "}\n";
  }
  return input;
}

/// Checks that the command goes on with `done` lines answered before, to the end.
inline void check_goes_on(const Scratch& scratch, const std::string& command, int done) {
  const Outcome outcome = shell(scratch, command);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.err,
             Catch::Contains("going on: " + std::to_string(done) + " lines are done already"));
}

}  // namespace plimsoll::test
