// A line that kills the process, and deaths that are no line's fault.
#include <catch2/catch.hpp>

#include "cli/program.h"

using namespace plimsoll;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

// Line 2 is long enough to be met at work, its answers one after the other; line 1 is answered
// before.
const std::string kKillerLines =
    "{\"id\":\"a\",\"prompt\":\"x\",\"max_tokens\":1}\n"
    "{\"id\":\"killer\",\"prompt\":\"x\",\"max_tokens\":1000,\"ignore_eos\":true,\"n\":6}\n"
    "{\"id\":\"b\",\"prompt\":\"x\",\"max_tokens\":1}\n";

// A life in which the process gets a signal while a line is in hand; `answered`: one before it is.
std::string life(const std::string& signal, int line = 2, bool answered = true) {
  return "(exec " + test::kProgram +
         " run $MODEL -q -i in -o out --threads 1 --max-num-seqs 1) & run=$!; "
         "until notes=$(cat out.running 2> log); "  // one look: the file is written anew meanwhile
         "[[ $notes == *+" +
         std::to_string(line) + "* && $notes != *!* " + (answered ? "&& -s out.part " : "") +
         "]]; "
         "do kill -0 $run || exit 98; sleep 0.01; done; kill -" +
         signal + " $run; wait $run";
}

}  // namespace

TEST_CASE("a line with which the process dies twice fails, and the run goes on") {
  const Scratch scratch;
  scratch.write("in", kKillerLines);
  CHECK(shell(scratch, life("ABRT")).status == 134);
  CHECK(shell(scratch, life("ABRT")).status == 134);
  const Outcome third = shell(scratch, "plimsoll run $MODEL -i in -o out");
  CHECK(third.status == 3);
  const auto lines = json_lines(scratch.read("out"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["error"].is_null());
  CHECK(lines[1]["error"]["code"] == "crashed");
  CHECK(lines[2]["error"].is_null());
  CHECK(!scratch.has("out.running"));
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out --retry-failed").status == 0);
}

TEST_CASE("a line with which the process dies before any answer is there fails too") {
  const Scratch scratch;
  scratch.write(
      "in",
      "{\"id\":\"killer\",\"prompt\":\"x\",\"max_tokens\":1000,\"ignore_eos\":true,\"n\":6}\n"
      "{\"id\":\"b\",\"prompt\":\"x\",\"max_tokens\":1}\n");
  for (int i = 0; i < 2; ++i) {
    CHECK(shell(scratch, life("ABRT", 1, false)).status == 134);
    CHECK(scratch.read("out.part").empty());
  }
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 3);
  const auto lines = json_lines(scratch.read("out"));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["error"]["code"] == "crashed");
  CHECK(lines[1]["error"].is_null());
}

TEST_CASE("a run knows nothing of the crashes of another run under its name") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"x\",\"max_tokens\":1}\n");
  for (const char* flags : {"", " --overwrite"}) {
    INFO(flags);
    scratch.write("out.running", "?1\n?1\n");  // two deaths with line 1 in hand
    const Outcome fresh =
        shell(scratch, std::string("plimsoll run $MODEL -q -i in -o out") + flags);
    INFO(fresh.err);
    CHECK(fresh.status == 0);
    CHECK(json_lines(scratch.read("out")).at(0)["error"].is_null());
  }
}

TEST_CASE("being killed is no line's fault") {
  const Scratch scratch;
  scratch.write("in", kKillerLines);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  for (int i = 0; i < 3; ++i) CHECK(shell(scratch, life("KILL")).status == 137);
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
  CHECK(scratch.read("out") == scratch.read("whole"));
}

TEST_CASE(
    "lines that were in hand at a crash run one by one: those beside the killer are answered") {
  const Scratch scratch;
  scratch.write(
      "in",
      "{\"prompt\":\"x\",\"max_tokens\":1}\n"
      "{\"id\":\"beside\",\"prompt\":\"x\",\"max_tokens\":1000,\"ignore_eos\":true,\"n\":2}\n"
      "{\"id\":\"killer\",\"prompt\":\"x\",\"max_tokens\":1000,\"ignore_eos\":true,\"n\":6}\n"
      "{\"prompt\":\"x\",\"max_tokens\":1}\n");
  CHECK(shell(scratch, life("ABRT", 3)).status == 134);
  CHECK_THAT(scratch.read("out.running"), Catch::Contains("+2\n+3\n"));
  CHECK(shell(scratch, life("ABRT", 3)).status == 134);
  CHECK_THAT(scratch.read("out.running"), Catch::Contains("-2\n+3\n\n!"));  // and no line beside it
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 3);
  const auto lines = json_lines(scratch.read("out"));
  REQUIRE(lines.size() == 4);
  CHECK(lines[1]["error"].is_null());
  CHECK(lines[2]["error"]["code"] == "crashed");
  CHECK(lines[3]["error"].is_null());
}

TEST_CASE("a line that was in hand at a crash waits until fresh lines before it are answered") {
  const Scratch scratch;
  scratch.write(
      "in",
      "{\"prompt\":\"x\",\"max_tokens\":1}\n"
      "{\"id\":\"fresh\",\"prompt\":\"x\",\"max_tokens\":1000,\"ignore_eos\":true,\"n\":2}\n"
      "{\"id\":\"killer\",\"prompt\":\"x\",\"max_tokens\":1000,\"ignore_eos\":true,\"n\":6}\n");
  CHECK(shell(scratch, life("ABRT", 3)).status == 134);
  scratch.write("out.running", "?3\n");  // as if it had been alone
  CHECK(shell(scratch, life("ABRT", 3)).status == 134);
  CHECK_THAT(scratch.read("out.running"), Catch::Contains("-2\n+3\n\n!"));
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 3);
  const auto lines = json_lines(scratch.read("out"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[1]["error"].is_null());
  CHECK(lines[2]["error"]["code"] == "crashed");
}

TEST_CASE("what a run that is finished has noted of crashes goes when it is called again") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"x\",\"max_tokens\":1}\n");
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
  scratch.write("out.running", "+1\n");  // a process that was killed when it had published
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
  CHECK(!scratch.has("out.running"));
}
