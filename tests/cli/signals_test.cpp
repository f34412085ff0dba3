// Signals, limits of time and signs of life.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "cli/program.h"
#include "cli/run/status.h"

using namespace plimsoll;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

// One prompt after the other, each a long step; then a signal once the first answer is there.
const std::string kBusy =
    "for i in $(seq 2000); do echo '\"Enter the king, with all his lords\"'; done > in; "
    "(exec " +
    test::kProgram +  // not the function, whose shell the signals would meet
    " run $MODEL -i in -o out --max-tokens 100 --max-num-seqs 2 --threads 1 $FLAGS) & run=$!; "
    "while ! test -s out.part; do kill -0 $run || exit 98; sleep 0.01; done; ";

}  // namespace

TEST_CASE("SIGUSR1 tells and goes on, SIGUSR2 drains") {
  const Scratch scratch;
  const Outcome outcome = shell(
      scratch, kBusy +
                   "kill -USR1 $run; sleep 0.3; kill -0 $run || exit 99; kill -USR2 $run; wait "
                   "$run");
  CHECK(outcome.status == 7);
  CHECK_THAT(outcome.err, Catch::Contains("/2000 lines, "));
  CHECK_THAT(outcome.err, Catch::Contains(" of 2000 lines answered"));
  CHECK_THAT(outcome.err, Catch::Contains("the same command goes on"));
}

TEST_CASE("no grace: the signal ends the run at once, with its report") {
  const Scratch scratch;
  const Outcome outcome =
      shell(scratch, "FLAGS='--grace 0s --report r'; " + kBusy + "kill -TERM $run; wait $run");
  CHECK(outcome.status == 7);
  CHECK_THAT(outcome.err,
             Catch::Contains(" of 2000 lines answered") && !Catch::Contains("0.00 MiB"));
  const Json report = parse_json<Json>(scratch.read("r"));
  CHECK(report["ending"] == "stopped");
  CHECK(report["exit_status"] == 7);
  CHECK(report["lines"]["total"] == 2000);
  CHECK(report["lines"]["not_finished"] == 2000 - json_lines(scratch.read("out.part")).size());
}

TEST_CASE("a signal that the parent ignores stays ignored") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  const Outcome outcome = shell(
      scratch, "mkfifo pipe; (trap '' HUP; exec " + test::kProgram +
                   " run $MODEL -q -i pipe -o out --max-tokens 1) & run=$!; exec 3>pipe; "
                   "while ! test -e out.part; do sleep 0.02; done; kill -HUP $run; sleep 0.2; "
                   "echo '\"a\"' >&3; exec 3>&-; wait $run");
  CHECK(outcome.status == 0);
}

TEST_CASE("status lines and metrics while the run goes on") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n\"b\"\n");
  const Outcome outcome = shell(scratch,
                                "plimsoll run $MODEL -q -i in --max-tokens 2 --status-fd 3 "
                                "--metrics-file m.prom 3>status");
  CHECK(outcome.status == 0);
  const auto lines = json_lines(scratch.read("status"));
  REQUIRE(lines.size() >= 2);
  CHECK(lines.back()["event"] == "end");
  CHECK(lines.back()["exit_status"] == 0);
  CHECK(lines[lines.size() - 2]["done"] == 2);
  CHECK(lines[lines.size() - 2]["order"] == "file");
  CHECK_THAT(scratch.read("m.prom"), Catch::Contains("plimsoll_lines_done{output=\"-\"} 2\n"));
  CHECK(shell(scratch, "plimsoll run $MODEL -i in --status-fd 77").status == 2);
}

TEST_CASE("however a run ends, its last status line says with what") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":1}\n");
  scratch.write("xz",
                "\xfd"
                "7zXZ");
  struct Row {
    const char* flags;
    int status;
  };
  for (const Row& row :
       {Row{"-i in -o out", 0}, Row{"-i in -o out", 0},  // done; done already
        Row{"-i in -o out --seed 9", 8}, Row{"-i xz -o other", 4}, Row{"-i in -o no/folder", 9},
        Row{"-i in --errors in", 2}, Row{"-i in --tokenizer none", 5}, Row{"--publish none", 8}}) {
    INFO(row.flags);
    const Outcome outcome =
        shell(scratch, std::string("plimsoll run $MODEL -q --status-fd 3 3>status ") + row.flags);
    CHECK(outcome.status == row.status);
    const auto lines = json_lines(scratch.read("status"));
    REQUIRE(!lines.empty());
    CHECK(lines.back()["event"] == "end");
    CHECK(lines.back()["exit_status"] == row.status);
  }
}

TEST_CASE("nothing is told behind the end, whichever thread comes last") {
  const Scratch scratch;
  cli::RunOptions options;
  options.status_fd = open(scratch.path("status").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(*options.status_fd >= 0);
  cli::StatusSink sink(options);
  sink.publish(batch::ProgressSample{});
  sink.end(0);
  sink.publish(batch::ProgressSample{});
  close(*options.status_fd);
  const auto lines = json_lines(scratch.read("status"));
  REQUIRE(lines.size() == 2);
  CHECK(lines.back()["event"] == "end");
}

TEST_CASE("a status reader that takes nothing holds up neither a run nor its end") {
  const Scratch scratch;
  const std::string full = "mkfifo pipe; exec 5<>pipe; timeout 0.2 cat /dev/zero >&5; ";
  scratch.write("in", "\"a\"\n");
  CHECK(shell(scratch, full + "timeout -k 1 5 $PROGRAM run $MODEL -q -i in --status-fd 5").status ==
        0);
  CHECK(shell(scratch, "rm pipe; " + full + "FLAGS='--grace 0s --status-fd 5'; " + kBusy +
                           "kill -TERM $run; (sleep 5; kill -KILL $run) & guard=$!; wait $run; "
                           "status=$?; kill $guard; exit $status")
            .status == 7);
}

TEST_CASE("what is no JSONL at all gets one answer with the cure") {
  const Scratch scratch;
  struct Row {
    const char* text;
    const char* cure;
  };
  for (const Row& row :
       {Row{"[{\"prompt\":\"a\"},\n{\"prompt\":\"b\"}]\n", "jq -c '.[]'"},
        Row{"{\n  \"prompt\": \"a\"\n}\n", "jq -c ."}, Row{"id,prompt\n1,hello\n2,you\n", "mlr"},
        Row{"hello\nyou there\n", "jq -R ."}}) {
    INFO(row.text);
    scratch.write("in", row.text);
    const Outcome outcome = shell(scratch, "plimsoll run $MODEL -i in -o out");
    CHECK(outcome.status == 4);
    CHECK_THAT(outcome.err, Catch::Contains(row.cure));
    CHECK(!scratch.has("out.part"));
  }
}

TEST_CASE("a folder of generation settings that is not there is named") {
  const Scratch scratch;
  scratch.write("in", "\"a\"\n");
  const Outcome outcome = shell(scratch, "plimsoll run $MODEL -i in --generation-config vlm");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Catch::Contains("--generation-config vlm"));
}
