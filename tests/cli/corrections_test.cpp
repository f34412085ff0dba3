// Lines that failed, or are corrected, and run again: --retry-failed.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "cli/program.h"
#include "cli/resumed.h"

using namespace plimsoll;
using test::check_goes_on;
using test::prompts;
using test::Scratch;
using test::shell;

TEST_CASE("corrected lines are answered by --retry-failed, and the others stay") {
  const Scratch scratch;
  const std::string good = prompts(4);
  scratch.write("in", good + R"({"id":"x","prompt":"Ay","max_tokens":3,"temperature":-1})" + "\n");
  scratch.write("right", good + R"({"id":"x","prompt":"Ay","max_tokens":3})" + "\n");
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i right -o whole").status == 0);
  const std::string command = "plimsoll run $MODEL -i in -o out";
  REQUIRE(shell(scratch, command).status == 3);
  scratch.write("in", scratch.read("right"));
  const test::Outcome refused = shell(scratch, command);
  CHECK(refused.status == 8);
  CHECK_THAT(refused.err, Catch::Contains("that were corrected with --retry-failed"));
  check_goes_on(scratch, command + " --retry-failed", 4);
  CHECK(scratch.read("out") == scratch.read("whole"));
}

TEST_CASE("with corrections a line that was answered and has another text now is answered anew") {
  const Scratch scratch;
  scratch.write("in", prompts(3) + "{broken\n");
  const std::string command = "plimsoll run $MODEL -i in -o out";
  REQUIRE(shell(scratch, command).status == 3);
  std::string changed = prompts(3);
  changed.replace(changed.find("Enter 1"), 7, "Exit 1!");
  scratch.write("in", changed + "{\"prompt\":\"mended\",\"max_tokens\":2}\n");
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  check_goes_on(scratch, command + " --retry-failed", 2);
  CHECK(scratch.read("out") == scratch.read("whole"));
}

TEST_CASE("failures in a packed file of their own are run again, and again") {
  const Scratch scratch;
  const std::string command = "plimsoll run $MODEL -q -i in -o out.gz --errors failed.gz";
  for (const char* value : {"-1", "-2", "-3", "1"}) {
    scratch.write("in", prompts(2) + R"({"id":"x","prompt":"Ay","max_tokens":2,"temperature":)" +
                            value + "}\n");
    const bool begins = value == std::string("-1"), answers = value == std::string("1");
    const test::Outcome outcome = shell(scratch, command + (begins ? "" : " --retry-failed"));
    INFO(value << ": " << outcome.err);
    CHECK(outcome.status == (answers ? 0 : 3));
    const std::string failed = shell(scratch, "gzip -dc failed.gz").out;
    CHECK((failed.find(value) == std::string::npos) == answers);
  }
}

TEST_CASE("lines that were too long are answered when they may be cut") {
  const Scratch scratch;
  std::string words;
  for (int i = 0; i < 90; ++i) words += "word ";
  scratch.write("in", prompts(2) + "{\"prompt\":\"" + words + "\",\"max_tokens\":2}\n");
  const std::string command = "plimsoll run $MODEL -q -i in -o out --max-model-len 64";
  REQUIRE(shell(scratch, command).status == 3);
  CHECK(shell(scratch, command + " --long-prompt truncate-left").status == 8);
  CHECK(shell(scratch, command + " --long-prompt truncate-left --retry-failed").status == 0);
}

TEST_CASE("a run in which no line failed has none to correct, and says so") {
  const Scratch scratch;
  scratch.write("in", prompts(2));
  const std::string command = "plimsoll run $MODEL -q -i in -o out";
  REQUIRE(shell(scratch, command).status == 0);
  scratch.write("in", prompts(3));
  const test::Outcome outcome = shell(scratch, command + " --retry-failed");
  CHECK(outcome.status == 8);
  CHECK_THAT(outcome.err, Catch::Contains("no line of it failed"));
}

TEST_CASE("parts and what they were merged to take a corrected input, also where no line failed") {
  const Scratch scratch;
  const std::string good = prompts(5);
  scratch.write("in", "{broken\n" + good);
  const std::string part = "plimsoll run $MODEL -q -i in -o out.{part} ";
  const auto run = [&](const std::string& flags) {
    return shell(scratch, part + "--part 0/2 " + flags).status * 10 +
           shell(scratch, part + "--part 1/2 " + flags).status;
  };
  const std::string merge = "plimsoll run -q --merge out.0 out.1 -o ";
  REQUIRE(run("") == 30);
  REQUIRE(shell(scratch, merge + "joined").status == 3);
  CHECK(run("--retry-failed") == 30);  // the second part has nothing to do
  scratch.write("in", "{\"prompt\":\"Ay\",\"max_tokens\":2}\n" + good);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  CHECK(run("") == 88);
  CHECK(run("--retry-failed") == 0);
  REQUIRE(shell(scratch, merge + "merged").status == 0);
  CHECK(scratch.read("merged") == scratch.read("whole"));
  check_goes_on(scratch, "plimsoll run $MODEL -i in -o joined --retry-failed", 5);
  CHECK(scratch.read("joined") == scratch.read("whole"));
}

TEST_CASE("a correction that is refused leaves the published outputs where they were") {
  for (const std::string out : {"out", "out.gz"}) {
    INFO(out);
    const Scratch scratch;
    const std::string input = prompts(3) + "{broken\n";
    scratch.write("in", input);
    const std::string command = "plimsoll run $MODEL -q -i in --errors bad -o " + out;
    REQUIRE(shell(scratch, command).status == 3);
    const std::string answers = scratch.read(out);
    const std::string failures = scratch.read("bad");
    scratch.write("in", input.substr(input.find('\n') + 1));  // without an answered line
    const test::Outcome refused = shell(scratch, command + " --retry-failed");
    CHECK(refused.status == 8);
    CHECK_THAT(refused.err, Catch::Contains("does not have; input and output do not belong"));
    CHECK(scratch.read(out) == answers);
    CHECK(scratch.read("bad") == failures);
    for (const std::string& name : {out, std::string("bad")}) {
      CHECK_FALSE(scratch.has(name + ".part"));
      CHECK_FALSE(scratch.has(name + ".part.xxh3"));
    }
    scratch.write("in", prompts(3) + "{\"prompt\":\"Ay\",\"max_tokens\":2}\n");
    CHECK(shell(scratch, command + " --max-tokens 2 --retry-failed").status == 8);
    CHECK(shell(scratch, command + " --retry-failed").status == 0);
    CHECK(scratch.read("bad").empty());
  }
}

TEST_CASE("a correction that finds the errors file locked leaves the output where it was") {
  const Scratch scratch;
  scratch.write("in", prompts(3) + "{broken\n");
  const std::string command = "plimsoll run $MODEL -q -i in --errors bad -o out";
  REQUIRE(shell(scratch, command).status == 3);
  const std::string answers = scratch.read("out");
  const int bad = open(scratch.path("bad").c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  REQUIRE(fcntl(bad, F_SETLK, &lock) == 0);
  scratch.write("in", prompts(3) + "{\"prompt\":\"Ay\",\"max_tokens\":2}\n");
  const test::Outcome refused = shell(scratch, command + " --retry-failed");
  close(bad);  // gives the lock back
  CHECK(refused.status == 11);
  CHECK_THAT(refused.err, Catch::Contains("another process"));
  REQUIRE(scratch.has("out"));
  CHECK(scratch.read("out") == answers);
  CHECK_FALSE(scratch.has("out.part"));
  CHECK(shell(scratch, command + " --retry-failed").status == 0);
}

TEST_CASE("a run whose lines all failed goes on from its errors after a launch that was refused") {
  const Scratch scratch;
  scratch.write("in",
                "{\"prompt\":\"Ay\",\"max_tokens\":-8}\n{\"prompt\":\"B\",\"max_tokens\":-8}\n");
  const std::string command = "plimsoll run $MODEL -q -i in --errors bad -o out";
  REQUIRE(shell(scratch, command).status == 3);
  const std::string failures = scratch.read("bad");
  CHECK(shell(scratch, command + " --retry-failed --kv-cache-memory-bytes 1000").status == 6);
  const test::Outcome again = shell(scratch, command + " --retry-failed");
  INFO(again.err);
  CHECK(again.status == 3);
  CHECK(scratch.has("out"));
  CHECK(scratch.read("bad") == failures);
}
