// `run` on ranks in several processes, which mpirun starts: skipped where there is none, or where
// the program was built without MPI.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <tuple>

#include "cli/program.h"
#include "cli/rank_lines.h"
#include "like_cases.h"
#include "reference/recipe.h"
#include "skipped.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;
using test::shell;
using test::write_rank_lines;

namespace {

/// mpirun for processes on however few cores, and for any user, root too.
const std::string kMpirun =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "mpirun --oversubscribe --bind-to none -q ";

bool has_mpi() {
#ifdef PLIMSOLL_SANITIZED  // finds what Open MPI keeps
  return false;
#endif
  static const bool has = std::filesystem::exists(PLIMSOLL_BINARY_DIR "/plimsoll_openmpi.so") &&
                          std::system("(mpirun --version && pgrep -V) >/dev/null 2>&1") == 0;
  return has;
}

/// MPICH's launcher beside it.
const std::string kMpiexec = "mpiexec.mpich ";

bool has_mpich() {
#ifdef PLIMSOLL_SANITIZED
  return false;
#endif
  return std::filesystem::exists(PLIMSOLL_BINARY_DIR "/plimsoll_mpich.so") &&
         std::system("mpiexec.mpich --version >/dev/null 2>&1") == 0;
}

std::string processes(int count) {
  return kMpirun + "-n " + std::to_string(count) + " \"$PROGRAM\" ";
}

}  // namespace

TEST_CASE("ranks in several processes print what one rank prints", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const Scratch scratch;
  write_rank_lines(scratch);
  for (const char* dtype : {"float32", "bfloat16"}) {
    const std::string run =
        std::string("run $MODEL -q -i in --overwrite --report r --threads 1 --dtype ") + dtype;
    REQUIRE(shell(scratch, "plimsoll " + run + " -o one").status == 0);
    const std::pair<int, const char*> kinds[] = {
        {2, "-tp 2"},       {2, "-pp 2"},
        {2, "-tp 2 -pp 3"}, {3, "-pp 3 --max-num-seqs auto --cpu-kvcache-space 0.1"},
        {4, "-tp 2 -pp 2"}, {2, "-tp 2 -dp 2"},
        {1, "-tp 2"}};
    for (const auto& [count, ranks] : kinds) {
      INFO(count << " processes, " << ranks << ", " << dtype);
      const Outcome outcome =
          shell(scratch, processes(count) + run + " -o more " + ranks + " && cmp one more");
      CHECK(outcome.err.empty());
      CHECK(outcome.status == 0);
    }
  }
}

TEST_CASE("stages in processes go on when each has much to say to the other", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const Scratch scratch;
  std::string input;  // logits and hidden states beyond what MPI takes without a receiver
  for (int i = 0; i < 64; ++i) {
    input += "{\"prompt\":\"To be " + std::to_string(i) + "\",\"max_tokens\":5}\n";
  }
  scratch.write("in", input);
  const std::string run = "run $MODEL -q -i in --threads 1 --max-num-seqs 64 ";
  const Outcome outcome =
      shell(scratch, "plimsoll " + run + "-o one && " + processes(3) + run +
                         "-o more -pp 3 --max-num-batched-tokens 512 && cmp one more");
  INFO(outcome.err);
  CHECK(outcome.status == 0);
}

TEST_CASE("MPICH's processes print the same, and end together", "[mpi]") {
  if (!has_mpich()) return testing::skip("no mpiexec.mpich or no plug-in for MPICH, or sanitizers");
  const Scratch scratch;
  write_rank_lines(scratch);
  const std::string run = "run $MODEL -q -i in --overwrite --threads 1 ";
  REQUIRE(shell(scratch, "plimsoll " + run + "-o one").status == 0);
  const std::pair<int, const char*> kinds[] = {
      {2, "-tp 2"}, {2, "-pp 2"}, {4, "-tp 2 -pp 2"}, {2, "-tp 2 -dp 2"}};
  for (const auto& [count, ranks] : kinds) {
    INFO(count << " processes, " << ranks);
    const Outcome outcome =
        shell(scratch, kMpiexec + "-n " + std::to_string(count) + " \"$PROGRAM\" " + run +
                           "-o more " + ranks + " && cmp one more");
    CHECK(outcome.err.empty());
    CHECK(outcome.status == 0);
  }
  const Outcome refused = shell(scratch, kMpiexec + "-n 2 \"$PROGRAM\" " + run +
                                             "-o more -tp 2 -dp 2 --max-num-seqs 9 "
                                             "--max-num-batched-tokens 8");
  CHECK(refused.status == 2);
}

TEST_CASE("a launcher whose MPI is not there is told once on a machine", "[mpi]") {
#ifdef PLIMSOLL_SANITIZED
  return testing::skip("sanitizers find what Open MPI keeps");
#endif
  const Scratch scratch;
  write_rank_lines(scratch);
  const auto refusal = [&](const std::string& place, const std::string& program,
                           const std::string& wanted) {
    const std::string run = program + " run $MODEL -i in -o out -tp 2";
    const Outcome first = shell(scratch, place + "PMI_RANK=0 MPI_LOCALRANKID=0 " + run);
    CHECK(first.status == 2);
    CHECK_THAT(first.err, Catch::Contains(wanted));
    const Outcome second = shell(scratch, place + "PMI_RANK=1 MPI_LOCALRANKID=1 " + run);
    CHECK(second.status == 2);
    CHECK(second.err.empty());
  };
  std::filesystem::copy_file(test::kProgram, scratch.path("alone"));
  refusal("PMI_SIZE=2 ", "./alone", "MPICH's libmpich12");
  if (!has_mpi()) return;
  // Open MPI's library does not understand MPICH's launcher.
  std::filesystem::copy_file(PLIMSOLL_BINARY_DIR "/plimsoll_openmpi.so",
                             scratch.path("plimsoll_openmpi.so"));
  refusal("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PMI_SIZE=2 ", "./alone",
          "PMI_SIZE is 2, but the MPI library that could be opened finds 1 process:");
}

TEST_CASE("golden models in several processes print what they print in one", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const std::string run =
      "run model --skip-tokenizer-init -q -i in --overwrite --threads 1 --max-num-batched-tokens 8 "
      "--max-num-seqs 4 ";
  for (const char* name : {"llama3_tied", "gemma2", "qwen3_moe", "lfm2", "glm_moe_dsa"}) {
    const Scratch scratch;
    testing::write_checkpoint(PLIMSOLL_SOURCE_DIR "/tests/data/golden/models/" + std::string(name),
                              scratch.path("model"));
    scratch.write("in", R"({"prompt":[5,9,2,7,1,3,8,4,6,9,11,12],"max_tokens":12,"temperature":0})"
                        "\n"
                        R"({"prompt":[7,7],"max_tokens":9,"temperature":1,"ignore_eos":true})"
                        "\n");
    REQUIRE(shell(scratch, "plimsoll " + run + "-o one").status == 0);
    for (const char* ranks : {"-tp 2", "-pp 2", "-tp 2 -pp 2"}) {
      INFO(name << " " << ranks);
      const Outcome outcome =
          shell(scratch, processes(2) + run + "-o more " + ranks + " && cmp one more");
      CHECK(outcome.err.empty());
      CHECK(outcome.status == 0);
    }
  }
}

TEST_CASE("the report has what each rank has taken and read, in whatever process", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const Scratch scratch;
  write_rank_lines(scratch);
  const auto ranks_of = [&](const std::string& program, const std::string& flags) {
    const Outcome outcome =
        shell(scratch, program + " run $MODEL -q -i in -o out --overwrite --report r " + flags);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const Json report = parse_json<Json>(scratch.read("r"));
    CHECK(report["memory"]["within_plan"] == true);
    return report["ranks"];
  };
  const Json threads = ranks_of("plimsoll", "-tp 2 -pp 2"),
             apart = ranks_of(processes(2), "-tp 2 -pp 2");
  REQUIRE(apart.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    for (const char* key : {"tensor_rank", "first_layer", "layers", "checkpoint_bytes_read"}) {
      CHECK(apart[i][key] == threads[i][key]);
    }
    CHECK(apart[i]["planned_bytes"] == apart[i]["measured_bytes"]);
  }
}

TEST_CASE("plan under a launcher counts what run takes in as many processes", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const Scratch scratch;
  write_rank_lines(scratch);
  for (const auto& [count, ranks, per_stage] :
       {std::tuple(2, "-tp 2", 2), std::tuple(2, "-pp 2", 1), std::tuple(4, "-tp 2 -pp 2", 2),
        std::tuple(2, "-tp 2 -pp 2", 2)}) {
    INFO(count << " processes, " << ranks);
    const Outcome planned =
        shell(scratch, processes(count) +
                           "plan $MODEL --engine plimsoll --format json --threads 1 " + ranks);
    const Outcome taken = shell(
        scratch, processes(count) +
                     "run $MODEL -q -i in -o out --overwrite --threads 1 --report r " + ranks);
    REQUIRE(planned.status == 0);
    REQUIRE(taken.status == 0);
    const Json plan = parse_json<Json>(planned.out);
    const Json measured = parse_json<Json>(scratch.read("r"))["ranks"];
    const Json stages = plan.contains("stages") ? plan["stages"] : Json::array({plan});
    for (size_t i = 0; i < stages.size(); ++i) {
      int64_t bytes = 0;
      for (const Json& part : stages[i]["parts"]) bytes += part["bytes"].get<int64_t>();
      CHECK(bytes == measured[i * static_cast<size_t>(per_stage)]["measured_bytes"]);
    }
  }
}

TEST_CASE("a run goes on in several processes, and is over for all", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const Scratch scratch;
  write_rank_lines(scratch);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  const std::string run = "run $MODEL -i in -o out -tp 2 --progress none ";
  // Ended by a signal after the first lines.
  const Outcome outcome =
      shell(scratch,
            "\"$PROGRAM\" run $MODEL -q -i in -o out --max-num-seqs 1 --grace 0s & "
            "for i in $(seq 3000); do test -s out.part -o -e out && break; sleep 0.01; done; "
            "kill -TERM $!; wait $!; " +
                processes(2) + run + "-q && cmp whole out");
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  const Outcome again = shell(scratch, processes(2) + run);
  CHECK(again.status == 0);
  CHECK(again.err.find("is complete already") == again.err.rfind("is complete already"));
  CHECK_THAT(again.err, Catch::Contains("is complete already"));
}

TEST_CASE("processes that do not fit the ranks, and each other, are told once", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const Scratch scratch;
  write_rank_lines(scratch);
  const auto refusal = [&](const std::string& command, const std::string& wanted) {
    const Outcome outcome = shell(scratch, command);
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find(wanted) != std::string::npos);
    CHECK(outcome.err.find(wanted) == outcome.err.rfind(wanted));
  };
  const std::string run = "run $MODEL -i in -o out ";
  refusal(processes(3) + run + "-tp 2", "cannot share the 2 ranks of -tp 2 and -pp 1; 1, 2 would");
  refusal(processes(2) + run, "cannot share the one rank");
  const std::string plan = "plan $MODEL --engine plimsoll --format json -tp 2";
  const auto tells = [&](const std::string& command) {
    const Outcome planned = shell(scratch, command);
    CHECK(planned.status == 0);
    return planned.out.find("run refuses this: OMPI_COMM_WORLD_SIZE is 3") != std::string::npos;
  };
  CHECK(tells(processes(3) + plan));
  CHECK_FALSE(tells(processes(3) + plan + " --part auto"));
  refusal(processes(1) + run + "-tp 2 --seed 1 : -n 1 \"$PROGRAM\" " + run + "-tp 2 --seed 2",
          "--seed: 2 here, 1 in process 0");
  refusal(processes(2) + run + "-tp 2 --max-num-seqs 9 --max-num-batched-tokens 8",
          "--max-num-batched-tokens 8 is less than");
}

TEST_CASE("commands that one process does are done by one", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const Scratch scratch;
  write_rank_lines(scratch);
  const Outcome plan =
      shell(scratch, processes(2) + "plan $MODEL --engine plimsoll -tp 2 --format json");
  INFO(plan.err);
  CHECK(plan.status == 0);
  CHECK(parse_json<Json>(plan.out).is_object());
  CHECK(shell(scratch, processes(2) + "shard $MODEL -q -o cut -tp 2").status == 0);
  CHECK(shell(scratch, processes(2) + "run $MODEL -i in -o out -tp 2 --dry-run").status == 0);
  // Parts are runs of their own.
  const Outcome parts =
      shell(scratch, processes(2) +
                         "run $MODEL -q -i in -o out.{part} --part auto && "
                         "plimsoll run -q -o all --merge out.0 out.1 && "
                         "plimsoll run $MODEL -q -i in -o whole && cmp all whole");
  INFO(parts.err);
  CHECK(parts.status == 0);
}

namespace {

/// Lines that keep a run busy for some seconds.
std::string long_batch_of(int lines) {
  std::string input;
  for (int i = 0; i < lines; ++i) {
    input += "{\"id\":\"" + std::to_string(i) + "\",\"prompt\":\"To be " + std::to_string(i) +
             "\",\"max_tokens\":" + std::to_string(20 + i * 7 % 60) +
             ",\"temperature\":1,\"ignore_eos\":true}\n";
  }
  return input;
}

/// A run of `count` processes of which one gets a signal after `seconds`, or when it is there and
/// has `begun` (a shell's condition) where that is later; prints its status and the time that it
/// took to end after that.
std::string disturbed(int count, const std::string& ranks, const std::string& name,
                      const std::string& seconds, int process, const std::string& begun = "true") {
  return processes(count) + "run $MODEL -q -o out -i in --threads 1 --max-num-seqs 16 " + ranks +
         " & run=$!; sleep " + seconds + "; while one=$(pgrep -P $run -x plimsoll | sed -n " +
         std::to_string(process + 1) + "p); kill -0 $run 2>/dev/null && { [ -z \"$one\" ] || ! " +
         begun + "; }; do sleep 0.1; done; [ -z \"$one\" ] || kill -" + name +
         " $one; before=$(date +%s); wait $run; echo $? $(($(date +%s) - before)) $one; ";
}

/// Leftovers of a disturbed run, which should leave none. Runs of other tests beside it name their
/// input first.
const std::string kLeft =
    "pgrep -f \"^$PROGRAM run $MODEL -q -o out -i in\"; find /dev/shm -name 'vader*' -newer in; ";

}  // namespace

TEST_CASE("a process that is stopped is noticed within ten seconds, and the same command goes on",
          "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  for (const int process : {0, 1}) {
    const Scratch scratch;
    scratch.write("in", long_batch_of(1600));
    REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
    Outcome outcome =
        shell(scratch, disturbed(2, "-tp 2", "STOP", "1", process, "[ -s out.part ]"));
    INFO("process " << process << ": " << outcome.out << outcome.err);
    int status = 0, seconds = 0;
    std::istringstream(outcome.out) >> status >> seconds;
    CHECK(status == 10);
    CHECK(seconds <= 30);  // 10 where no other program runs
    if (process == 1) CHECK_THAT(outcome.err, Catch::Contains("process 1 of 2, on "));
    CHECK(shell(scratch, kLeft).out.empty());
    outcome = shell(scratch, "plimsoll run $MODEL -q -i in -o out -pp 2 && cmp whole out");
    CHECK(outcome.err.empty());
    CHECK(outcome.status == 0);
  }
}

TEST_CASE("processes killed at random moments leave nothing, and lose nothing", "[mpi]") {
  if (!has_mpi())
    return testing::skip("no mpirun or pgrep, no plug-in for Open MPI, or sanitizers");
  const char* wanted = std::getenv("PLIMSOLL_RANK_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : testing::times(10, 4);
  const Scratch scratch;
  scratch.write("in", long_batch_of(400));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  const std::pair<int, const char*> kinds[] = {{2, "-tp 2"}, {2, "-pp 2"}, {2, "-tp 2 -pp 2"}};
  std::mt19937 random(20261122);
  int killed = 0, ended = 0;
  while (killed < kills) {
    const auto& [count, ranks] = kinds[random() % std::size(kinds)];
    const std::string seconds = std::to_string(0.3 + static_cast<double>(random() % 300) / 100);
    const int process = static_cast<int>(random()) & 1;
    const Outcome outcome = shell(scratch, disturbed(count, ranks, "KILL", seconds, process));
    INFO(killed << ": " << ranks << " " << outcome.out << outcome.err);
    int status = 0, took = 0;
    std::string hit;
    std::istringstream(outcome.out) >> status >> took >> hit;
    CHECK(took <= 30);  // 10 where no other program runs
    if (status != 0) REQUIRE(!hit.empty());
    REQUIRE(shell(scratch, kLeft).out.empty());
    if (status != 0) {
      ++killed;
      continue;
    }
    ++ended;
    REQUIRE(shell(scratch, "cmp whole out && rm -f out out.run.json").status == 0);
  }
  REQUIRE(
      shell(scratch, processes(2) + "run $MODEL -q -i in -o out -tp 2 --max-num-seqs 16").status ==
      0);
  CHECK(shell(scratch, "cmp whole out").status == 0);
  WARN(killed << " kills over " << ended + 1 << " runs");
}
