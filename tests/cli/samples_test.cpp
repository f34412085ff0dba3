// The scripts of samples/cluster, with stand-ins for the schedulers' own programs.
#include <catch2/catch.hpp>

#include "cli/program.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

const std::string kSamples = PLIMSOLL_SOURCE_DIR "/samples/cluster/";

std::string prompts(int lines, int tokens) {
  std::string input;
  for (int i = 0; i < lines; ++i) {
    input +=
        "{\"id\":\"p" + std::to_string(i) +
        "\",\"prompt\":\"Enter\",\"ignore_eos\":true,\"max_tokens\":" + std::to_string(tokens) +
        "}\n";
  }
  return input;
}

// A task of an array of two, with a scontrol that writes down what it was asked for.
std::string task(int id) {
  return "export PLIMSOLL='" + test::kProgram +
         "' PARTS=2 PATH=$PWD/bin:$PATH SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=" +
         std::to_string(id) +
         "; mkdir -p bin; printf '#!/bin/sh\\necho $* > asked' > bin/scontrol; "
         "chmod +x bin/scontrol; ";
}

}  // namespace

TEST_CASE("a Slurm task that is pre-empted asks to come again, goes on, and the parts join") {
  const Scratch scratch;
  scratch.write("in", prompts(60, 60));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  const std::string slurm = "bash '" + kSamples + "slurm.sh' $MODEL in parts";
  const Outcome early =
      shell(scratch,
            task(0) + "PLIMSOLL_FLAGS='--max-num-seqs 1 --threads 1 --grace 0s' " + slurm +
                " & job=$!; while ! test -s parts/out.000.jsonl.part; do kill -0 $job || exit 98; "
                "sleep 0.01; done; kill -TERM $job; wait $job");
  CHECK(early.status == 0);
  CHECK(scratch.read("asked") == "requeue 9_0\n");
  std::filesystem::remove(scratch.path("asked"));
  CHECK_THAT(shell(scratch, task(0) + slurm).err, Catch::Contains("are done already"));
  CHECK(shell(scratch, task(1) + slurm).status == 0);
  CHECK(!scratch.has("asked"));
  CHECK(shell(scratch, "plimsoll run --merge parts/out.*.jsonl -o all && cmp all whole").status ==
        0);
}

TEST_CASE("parts under GNU parallel join", "[parallel]") {
  const Scratch scratch;
  if (shell(scratch, "parallel --version").status != 0) {
    WARN("skipped: GNU parallel is not there");
    return;
  }
  scratch.write("in", prompts(10, 3));
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  CHECK(shell(scratch, "PLIMSOLL='" + test::kProgram + "' '" + kSamples +
                           "parallel.sh' $MODEL in all 3 2 && cmp all whole")
            .status == 0);
}
