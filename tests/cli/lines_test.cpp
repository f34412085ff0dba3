// Which lines a run answers: those of its part, those that a signal finds under way, those whose id
// another line has.
#include <catch2/catch.hpp>
#include <set>

#include "cli/program.h"

using namespace plimsoll;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

std::string ids_of(const std::string& output) {
  std::string ids;
  for (const Json& line : json_lines(output)) ids += line["id"].get<std::string>();
  return ids;
}

}  // namespace

TEST_CASE("what is skipped of a part is not made up for from the next one") {
  const Scratch scratch;
  std::string input;
  for (const char id : std::string("abcdefghij")) {
    input += std::string("{\"id\":\"") + id + "\",\"prompt\":\"a\",\"max_tokens\":1}\n";
  }
  scratch.write("in", input);
  struct Row {
    const char* flags;
    const char* ids;
  };
  for (const Row& row :
       {Row{"--part 0/3", "abcd"}, Row{"--part 0/3 --skip 1", "bcd"},
        Row{"--part 1/3 --skip 2", "g"}, Row{"--part 0/3 --skip 4", ""},
        Row{"--part 0/3 --skip 9", ""}, Row{"--part 2/3 --skip 1", "ij"},
        Row{"--part 0/3 --skip 1 --limit 2", "bc"}, Row{"--part 0/3 --skip 3 --limit 2", "d"}}) {
    INFO(row.flags);
    const Outcome outcome =
        shell(scratch, std::string("plimsoll run $MODEL -q -i in ") + row.flags);
    CHECK(outcome.status == 0);
    CHECK(ids_of(outcome.out) == row.ids);
  }
}

TEST_CASE("an id is taken by the line that has it first, even if that one cannot be answered") {
  struct Row {
    const char* what;
    const char* first;
  };
  const std::string second = R"({"id":"x","prompt":"a","max_tokens":1})";
  for (const Row& row :
       {Row{"a bad field", R"({"id":"x","prompt":1})"},
        Row{"no method that is known", R"({"custom_id":"x","method":"GET"})"},
        Row{"no address", R"({"custom_id":"x","method":"POST"})"},
        Row{"no body", R"({"custom_id":"x","method":"POST","url":"/v1/completions"})"}}) {
    INFO(row.what);
    const Scratch scratch;
    scratch.write("in", row.first + ("\n" + second) + "\n");
    const Outcome outcome = shell(scratch, "plimsoll run $MODEL -q -i in");
    CHECK(outcome.status == 3);
    CHECK(json_lines(outcome.out).at(1)["error"]["code"] == "duplicate_id");
    const Outcome strict = shell(scratch, "plimsoll run $MODEL -i in --strict");
    CHECK(strict.status == 4);
    CHECK_THAT(strict.err, Catch::Contains("line 2") && Catch::Contains("line 1"));
  }
}

TEST_CASE("what is under way when a signal comes is answered before the end") {
  const Scratch scratch;
  // The first answer is there after a step; the others take hundreds of them.
  scratch.write("lines", R"({"id":"a","prompt":"a","max_tokens":1}
{"id":"b","prompt":"b","max_tokens":300,"ignore_eos":true}
{"id":"c","prompt":"c","max_tokens":1000,"ignore_eos":true}
)");
  // The program itself runs, not the function "plimsoll", whose shell the signal would reach.
  const Outcome outcome = shell(scratch, "mkfifo in; (exec " + test::kProgram +
                                             R"( run $MODEL -i in -o out --grace 10m) &
run=$!; exec 3>in; cat lines >&3
until test -s out.part; do kill -0 $run || exit 98; sleep 0.01; done
kill -TERM $run; wait $run)");
  CHECK(outcome.status == 7);
  CHECK(ids_of(scratch.read("out.part")) == "abc");
}

TEST_CASE("equal prompts of one line draw their own random numbers") {
  const Scratch scratch;
  scratch.write("in", R"({"prompt":["x","x","x"],"max_tokens":12,"temperature":1.5})");
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
  std::set<std::string> answers;
  const Json line = parse_json<Json>(scratch.read("out"));
  for (const Json& choice : line["choices"]) {
    answers.insert(choice["text"].get<std::string>());
  }
  CHECK(answers.size() == 3);
}
