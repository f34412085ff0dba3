// What `plimsoll run` says of its input, of an output that is there, of parts that are joined, and
// of flags that mean nothing to it.
#include <catch2/catch.hpp>
#include <string>

#include "cli/program.h"

using namespace plimsoll;
using Catch::Contains;
using test::Outcome;
using test::Scratch;
using test::shell;

TEST_CASE("lines that cannot be answered are counted before the run, and after it") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n{broken\n\"c\"\n7\n");
  const std::string run = "plimsoll run $MODEL -i in -o out --max-tokens 2";
  const Outcome first = shell(scratch, run);
  CHECK(first.status == 3);
  CHECK_THAT(first.err,
             Contains("plimsoll: line 2, column 2: ") &&
                 Contains("plimsoll: line 4: expected an") &&
                 Contains("plimsoll: 2 of 4 lines cannot be answered; each gets a record that says "
                          "why\n") &&
                 Contains("plimsoll: 2 of 4 lines answered, 2 failed (1 bad_field, 1 bad_json)\n"));
  const Outcome again = shell(scratch, run + " --report r");
  CHECK(again.status == 3);
  CHECK_THAT(again.err, Catch::EndsWith("plimsoll: out: is complete already (2 lines answered, 2 "
                                        "failed); nothing to do\n"));
  CHECK(parse_json<Json>(scratch.read("r"))["lines"]["failed"] == 2);
  CHECK(shell(scratch, run + " -q").err.empty());
  // A part of the lines is answered, but all are looked at.
  const Outcome part = shell(scratch, "plimsoll run $MODEL -i in -o o2 --max-tokens 1 --limit 1");
  CHECK(part.status == 0);
  CHECK_THAT(part.err, Contains("2 of 4 lines cannot") && Contains("1 of 1 lines answered\n"));
}

TEST_CASE("prompts that are too long are told with the first, the longest and the way out") {
  const Scratch scratch;
  const auto prompt = [](int tokens) {
    std::string line = "{\"prompt_token_ids\":[1";
    for (int i = 1; i < tokens; ++i) line += ",1";
    return line + "],\"max_tokens\":1}\n";
  };
  scratch.write("in", prompt(3) + prompt(9) + prompt(7) + prompt(11) + prompt(10));
  const std::string run = "plimsoll run $MODEL -i in --overwrite -o out --max-model-len 8";
  const Outcome failed = shell(scratch, run);
  CHECK(failed.status == 3);
  CHECK_THAT(failed.err, Contains("plimsoll: 3 of the first 5 prompts are longer than the context "
                                  "of 8 tokens (line 2 first, the longest 11); they fail, unless "
                                  "--long-prompt says otherwise\n"));
  const Outcome cut = shell(scratch, run + " --long-prompt truncate-left");
  CHECK(cut.status == 0);
  // One token of each is the answer's: 9, 11 and 10 become 7.
  CHECK_THAT(cut.err, !Contains("longer than") &&
                          Contains("plimsoll: 9 tokens were cut from long prompts\n"));
  CHECK_THAT(shell(scratch, run + " -q").err, Catch::Equals(""));
}

TEST_CASE("flags for plan alone are named, each once, unless nobody is to be told") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  const std::string run = "plimsoll run $MODEL -i in --max-tokens 1 ";
  CHECK_THAT(shell(scratch, run + "--gpu h100 --tokens-per-second 2k").err,
             Catch::StartsWith(
                 "plimsoll: --gpu, --tokens-per-second: for plan alone, without effect here\n"));
  CHECK(shell(scratch, run + "-q --gpu h100").err.empty());
  CHECK_THAT(shell(scratch, run).err, !Contains("without effect"));
}

TEST_CASE("parts that are joined are counted, also where they were joined before") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n\"b\"\n{broken\n\"d\"\n\"e\"\n");
  for (const char* part : {"0", "1", "2"}) {
    const std::string flags = std::string(" -o s") + part + " --part " + part + "/3";
    shell(scratch, "plimsoll run $MODEL -q -i in --max-tokens 1" + flags);
  }
  const std::string merge = "plimsoll run --merge s0 s1 s2";
  const std::string counts = ": 4 lines answered, 1 failed, of 3 parts";
  const Outcome joined = shell(scratch, merge + " -o all");
  CHECK(joined.status == 3);
  CHECK(joined.err == "plimsoll: all" + counts + "\n");
  CHECK(shell(scratch, merge + " -o all").err ==
        "plimsoll: all" + counts + "; it was there already\n");
  const Outcome printed = shell(scratch, merge);
  CHECK(printed.err == "plimsoll: standard output" + counts + "\n");
  CHECK(printed.out == scratch.read("all"));
  CHECK(shell(scratch, merge + " -q -o all").err.empty());
  const Outcome pipe = shell(scratch,
                             "mkfifo pipe; cat in > pipe & plimsoll run $MODEL -i pipe "
                             "--part 0/2");
  CHECK(pipe.status == 2);
  CHECK_THAT(pipe.err, Contains("--part: pipe is not a regular file"));
}

TEST_CASE("what is published of an unfinished run is counted") {
  const Scratch scratch;
  std::string lines = "{broken\n";
  for (int i = 0; i < 60; ++i) lines += "{\"prompt\":\"a\",\"max_tokens\":2}\n";
  scratch.write("in", lines);
  const std::string run = "plimsoll run $MODEL -q -i in -o out --order file";
  REQUIRE(shell(scratch, "(ulimit -f 4; " + run + ")").status == 9);
  const Outcome published = shell(scratch, "plimsoll run --publish out");
  CHECK(published.status == 7);
  const size_t done = test::json_lines(scratch.read("out")).size();
  REQUIRE(done > 2);
  CHECK(published.err == "plimsoll: out: " + std::to_string(done - 1) + " lines answered, 1 " +
                             "failed, " + std::to_string(61 - done) + " missing\n");
  REQUIRE(shell(scratch, run).status == 3);
  const Outcome whole = shell(scratch, "plimsoll run --publish out");
  CHECK(whole.status == 3);
}

TEST_CASE("times beyond those of any clock are no limit") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n\"b\"\n");
  for (const char* flag : {"--time-limit", "--grace", "--stall-limit"}) {
    INFO(flag);
    const Outcome outcome = shell(scratch, std::string("plimsoll run $MODEL -q -i in -o out ") +
                                               "--overwrite --max-tokens 1 " + flag + " 99999999h");
    CHECK(outcome.status == 0);
    CHECK(test::json_lines(scratch.read("out")).size() == 2);
  }
}

TEST_CASE("what one of a launcher's programs does for all, the others leave to it") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  const std::string second = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 plimsoll ";
  for (const char* command :
       {"plan $MODEL --engine plimsoll", "shard $MODEL -o shards", "shard --verify none",
        "run --publish none", "run --merge none -o all",
        "run $MODEL -i in -o out -tp 2 --dry-run"}) {
    INFO(command);
    const Outcome outcome = shell(scratch, second + command);
    CHECK(outcome.status == 0);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.empty());
  }
  CHECK(!scratch.has("shards"));
  const std::string first = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 plimsoll ";
  CHECK(!shell(scratch, first + "plan $MODEL --engine plimsoll").out.empty());
  CHECK(shell(scratch, first + "run --publish none").status == 8);
  // A part is a run of its own.
  const Outcome part =
      shell(scratch, second + "run $MODEL -q -i in -o out --part auto/2 --max-tokens 1");
  CHECK(part.status == 0);
  CHECK(scratch.has("out"));
}
