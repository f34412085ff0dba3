// `plimsoll run` among other processes: pipes, signals, locks, full devices and terminals.
#include <catch2/catch.hpp>

#include "cli/program.h"

using namespace plimsoll;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

TEST_CASE("pipes: answers come while the input is open") {
  const Scratch scratch;
  const Outcome outcome = shell(scratch,
                                "mkfifo in; (echo '\"a\"'; for i in $(seq 100); do test -s out "
                                "&& break; sleep 0.05; done; test -s out && echo '\"b\"') > in & "
                                "plimsoll run $MODEL -q -i in --max-tokens 2 > out; cat out");
  CHECK(outcome.status == 0);
  CHECK(json_lines(outcome.out).size() == 2);
}

TEST_CASE("a closed pipe ends the run quietly; a full device is named") {
  const Scratch scratch;
  const Outcome closed = shell(
      scratch, "yes '\"a\"' | plimsoll run $MODEL --max-tokens 1 | head -1; exit ${PIPESTATUS[1]}");
  CHECK(closed.status == 141);
  CHECK(json_lines(closed.out).size() == 1);
  const Outcome full =
      shell(scratch, "echo '\"a\"' | plimsoll run $MODEL --max-tokens 1 > /dev/full");
  CHECK(full.status == 9);
  CHECK_THAT(full.err, Catch::Contains("No space left"));
}

TEST_CASE("the first signal drains, a time limit too") {
  const Scratch scratch;
  // Job control, so that background jobs keep SIGINT.
  scratch.write("stop", R"(set -m
mkfifo in
(for i in $(seq 500); do echo '"a"'; sleep 0.02; done) > in &
feed=$!
"$PROGRAM" run "$MODEL" -i in -o out --max-tokens 3 &
run=$!
for i in $(seq 500); do test -s out.part && break; sleep 0.02; done
kill -$1 $run
wait $run
status=$?
kill $feed
exit $status)");
  for (const char* name : {"INT", "TERM", "HUP"}) {
    INFO(name);
    const Outcome outcome = shell(scratch, "rm -f in out.part; PROGRAM='" + test::kProgram +
                                               "' MODEL=$MODEL bash stop " + name);
    CHECK(outcome.status == 7);
    CHECK_THAT(outcome.err, Catch::Contains("out.part"));
    CHECK(!json_lines(scratch.read("out.part")).empty());
    CHECK(!scratch.has("out"));
  }
  const Outcome limited = shell(scratch,
                                "mkfifo open; exec 3<>open; echo '\"a\"' >&3; "
                                "plimsoll run $MODEL -i open --max-tokens 2 --time-limit 0.5s");
  CHECK(limited.status == 7);
  CHECK(json_lines(limited.out).size() == 1);
}

TEST_CASE("two runs cannot write one output") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  const Outcome outcome =
      shell(scratch,
            "mkfifo pipe; plimsoll run $MODEL -q -i pipe -o out & exec 3>pipe; "
            "while ! test -e out.part; do sleep 0.02; done; "
            "plimsoll run $MODEL -i in -o out --overwrite; status=$?; exec 3>&-; wait; "
            "exit $status");
  CHECK(outcome.status == 11);
  CHECK_THAT(outcome.err, Catch::Contains("pid"));
}

TEST_CASE("failed lines can have a file of their own") {
  const Scratch scratch;
  scratch.write("in", "{broken\n{\"prompt\":\"a\",\"max_tokens\":1}\n");
  CHECK(shell(scratch, "plimsoll run $MODEL -i in -o out --errors bad").status == 3);
  CHECK(json_lines(scratch.read("out")).size() == 1);
  CHECK(json_lines(scratch.read("bad")).size() == 1);
}

TEST_CASE("hostile names cannot drive the terminal") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":1,\"\\u001b[2J\":1}\n");
  const Outcome outcome = shell(scratch, "plimsoll run $MODEL -i in");
  CHECK(outcome.err.find('\x1b') == std::string::npos);
  CHECK_THAT(outcome.err, Catch::Contains("\\x1b[2J"));
}

TEST_CASE("without home, terminal or known locale") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":1,\"temperature\":0.5,\"logprobs\":1}\n");
  const Outcome plain = shell(scratch, "plimsoll run $MODEL -q -i in");
  const Outcome bare =
      shell(scratch, "env -i LC_ALL=de_DE.UTF-8 " + test::kProgram + " run $MODEL -q -i in");
  CHECK(bare.status == 0);
  CHECK(bare.out == plain.out);
}

TEST_CASE("several inputs are read one after the other, as if they were one") {
  const Scratch scratch;
  const std::string line = "{\"prompt\":\"Enter\",\"max_tokens\":1}\n";
  scratch.write("a", line + line.substr(0, line.size() - 1));  // no line end at the end
  scratch.write("b", "\xEF\xBB\xBF" + line);
  scratch.write("empty", "");
  scratch.write("all", line + line + line);
  REQUIRE(shell(scratch, "gzip -k b; plimsoll run $MODEL -q -i all -o whole").status == 0);
  for (const char* inputs : {"-i a -i b", "-i empty -i a -i empty -i b.gz", "-i a -i - < b"}) {
    INFO(inputs);
    const Outcome outcome = shell(
        scratch, std::string("plimsoll run $MODEL -q -o out --overwrite ") + inputs + "; cat out");
    CHECK(outcome.out == scratch.read("whole"));
  }
  const std::string both = "plimsoll run $MODEL -q -i a -i b -o parts ";
  CHECK(shell(scratch, both + "--limit 1").status == 0);
  CHECK(shell(scratch, both).status == 0);
  CHECK(scratch.read("parts") == scratch.read("whole"));
  CHECK(shell(scratch, "plimsoll run $MODEL -q -i a -o parts").status == 8);
  const Outcome slices = shell(scratch,
                               "for i in 0 1; do plimsoll run $MODEL -q -i a -i b -o s$i "
                               "--part $i/2; done; cat s0 s1");
  CHECK(slices.out == scratch.read("whole"));
  CHECK(
      shell(scratch, "plimsoll plan $MODEL -i a -i b --format json | grep -c '\"lines\": 3'").out ==
      "1\n");
}

TEST_CASE("of several inputs each is looked at, and none is overwritten") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  scratch.write("table", "id,prompt\n1,hello\n2,you\n");
  const Outcome table = shell(scratch, "plimsoll run $MODEL -i in -i table -o out");
  CHECK(table.status == 4);
  CHECK_THAT(table.err, Catch::Contains("table: is"));
  const Outcome gone = shell(scratch, "plimsoll run $MODEL -i in -i gone -o out");
  CHECK(gone.status == 4);
  CHECK_THAT(gone.err, Catch::Contains("gone: cannot be read"));
  const Outcome itself = shell(scratch, "plimsoll run $MODEL -i in -i table --report table");
  CHECK(itself.status == 2);
  CHECK_THAT(itself.err, Catch::Contains("is the file of -i"));
}

TEST_CASE("names under which nothing can be published are refused before any work") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  REQUIRE(shell(scratch, "ln -s none/out link; ln -s gone lost").status == 0);
  const std::string name(245, 'x');
  for (const std::string& flags : std::vector<std::string>{
           "-o " + name, "-o link", "-o lost", "-o out --errors " + name, "-o out --errors lost",
           "-o out --report lost", "-o out --metrics-file lost"}) {
    INFO(flags);
    const Outcome outcome = shell(scratch, "plimsoll run $MODEL --max-tokens 1 -i in " + flags);
    CHECK(outcome.status == 9);
    CHECK_THAT(outcome.err,
               Catch::Contains("shorter name") || Catch::Contains("is a link to a file"));
    CHECK(!scratch.has("out.part"));
  }
}

TEST_CASE("no file that a run touches is overwritten by another") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  scratch.write("y.part", "\"a\"\n");
  const Outcome copied = shell(scratch, "cp -r $MODEL model; ln in hard; ln -s in soft");
  REQUIRE(copied.status == 0);
  struct Row {
    const char* flags;
    const char* told;
  };
  for (const Row& row : {Row{"-i in -o out --report out", "--report out: is the file of -o"},
                         Row{"-i in -o out --report in", "--report in: is the file of -i"},
                         Row{"-i in -o out --errors in --overwrite", "--errors in: is the file"},
                         Row{"-i in -o hard --overwrite", "-o hard: is the file of -i"},
                         Row{"-i in -o soft --overwrite", "-o soft: is the file of -i"},
                         Row{"-i y.part -o y --overwrite", "is the file of -i"},
                         Row{"-i in -o model/model.safetensors --overwrite", "of the model's"},
                         Row{"-i in -o out --report model/config.json", "of the model's"},
                         Row{"-i in -o out --errors out.part", "is the file of -o"}}) {
    INFO(row.flags);
    const Outcome outcome =
        shell(scratch, std::string("plimsoll run model --max-tokens 1 ") + row.flags);
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Catch::Contains(row.told));
    CHECK(scratch.read("in") == "\"a\"\n");
    CHECK(scratch.read("y.part") == "\"a\"\n");
    CHECK(!scratch.has("out"));
  }
  const Outcome fed = shell(scratch,
                            "mkfifo loop; exec 3<>loop; echo '\"a\"' >&3; "
                            "plimsoll run model -i /dev/fd/3 -o /dev/fd/3 --max-tokens 1");
  CHECK(fed.status == 2);
  CHECK(shell(scratch, "plimsoll run model -i in -o out --report no/report").status == 9);
  CHECK(!scratch.has("out"));
}

TEST_CASE("an output that appears during the run is left alone") {
  const Scratch scratch;
  // The run's record is written after the last check of the folder; out.part exists before it.
  const Outcome outcome =
      shell(scratch,
            "mkfifo pipe; plimsoll run $MODEL -q -i pipe -o out --max-tokens 1 & exec 3>pipe; "
            "while ! test -e out.run.json; do sleep 0.02; done; echo mine > out; echo '\"a\"' >&3; "
            "exec 3>&-; wait $!");
  CHECK(outcome.status == 8);
  CHECK_THAT(outcome.err, Catch::Contains("out.part"));
  CHECK(scratch.read("out") == "mine\n");
  CHECK(json_lines(scratch.read("out.part")).size() == 1);
}
