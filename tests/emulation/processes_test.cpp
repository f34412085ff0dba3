// `run` on emulated devices of several processes, which mpirun starts and which talk over a library
// with NCCL's functions (fake_nccl.cpp): skipped where there is no mpirun, or no MPI in this build.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <tuple>
#include <utility>

#include "cli/program.h"
#include "conformance/image_lines.h"
#include "reference/recipe.h"
#include "skipped.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;

namespace {

const std::string kEmulated = PLIMSOLL_BINARY_DIR "/plimsoll_emulated";

bool has_mpi() {
  static const bool has = std::filesystem::exists(PLIMSOLL_BINARY_DIR "/plimsoll_openmpi.so") &&
                          std::system("(mpirun --version && pgrep -V) >/dev/null 2>&1") == 0;
  return has;
}

bool cannot_run() {
  if (!has_mpi()) testing::skip("no mpirun or pgrep, or no plug-in for Open MPI");
  return !has_mpi();
}

/// The program, in so many processes on so many devices, which all of them see.
std::string on_devices(int processes, int devices, const std::string& variables = "") {
  return "export EMULATED_DEVICES=" + std::to_string(devices) +
         " VLLM_NCCL_SO_PATH=" PLIMSOLL_BINARY_DIR "/tests/emulation/fake_nccl.so " + variables +
         "; OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe "
         "--bind-to none -q -n " +
         std::to_string(processes) + " '" + kEmulated + "' ";
}

Outcome in_shell(const Scratch& scratch, const std::string& command) {
  return test::shell(scratch, "unset PLIMSOLL_DEVICE; export TMPDIR=$PWD; " + command);
}

/// Small enough for the emulator. Lines are drawn on the device, read by the host, and of several
/// pieces.
const std::string kRun =
    "run model --skip-tokenizer-init -q -i in --threads 1 --dtype float32 "
    "--max-num-seqs 2 --max-model-len 64 --gpu-memory 1500MiB "
    "--num-gpu-blocks-override 12 --report report ";
const std::string kPieces = "--max-num-batched-tokens 8 ";
const std::string kEager = kPieces + "--enforce-eager ",
                  kRecorded = kPieces + "--cuda-graph-sizes 1,2 ";

void write_work(const Scratch& scratch, const char* model) {
  testing::write_checkpoint(PLIMSOLL_SOURCE_DIR "/tests/data/golden/models/" + std::string(model),
                            scratch.path("model"));
  scratch.write("in",
                R"({"prompt":[5,9,2,7,1,3,8,4,6],"max_tokens":3,"temperature":0})"
                "\n"
                R"({"prompt":[7,7],"max_tokens":3,"temperature":1,"seed":3,"ignore_eos":true})"
                "\n"
                R"({"prompt":[2,3],"max_tokens":2,"temperature":0,"logprobs":2})"
                "\n");
}

/// Two images, of which ranks encode one each, and none.
void write_images(const Scratch& scratch) {
  testing::write_published(PLIMSOLL_SOURCE_DIR "/tests/data/golden/multimodal_run/llava",
                           scratch.path("model"));
  const std::string images = PLIMSOLL_SOURCE_DIR "/tests/data/images/";
  scratch.write("in", R"({"prompt_token_ids":[1,399,5,399,9],"max_tokens":3,"temperature":0,)"
                      R"("multi_modal_data":{"image":[")" +
                          images + R"(odd_37x53.png",")" + images +
                          R"(half_70x98.png"]}})"
                          "\n"
                          R"({"prompt":[7,7],"max_tokens":3,"temperature":0,"logprobs":2})"
                          "\n");
}

/// The tokens of every line, in order.
std::string tokens(const Scratch& scratch, const std::string& name) {
  std::string text;
  for (const Json& line : test::json_lines(scratch.read(name))) {
    text += line["choices"][0]["token_ids"].dump() + "\n";
  }
  return text;
}

/// Checks that the answers to the work in the scratch folder are equal with and without processes.
void check_same(const Scratch& scratch, int processes, int devices, const std::string& ranks,
                const std::string& more) {
  INFO(processes << " processes, " << ranks << ", " << more);
  const Outcome one =
      in_shell(scratch, "'" + kEmulated + "' " + kRun + more + "--device cpu -o one");
  INFO(one.err);
  REQUIRE(one.status == 0);
  const Outcome outcome = in_shell(
      scratch, on_devices(processes, devices) + kRun + more + "--device cuda -o more " + ranks);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(tokens(scratch, "more") == tokens(scratch, "one"));
  const Json report = parse_json<Json>(scratch.read("report"));
  CHECK(report["device"] == "emulation");
  for (const Json& rank : report["ranks"]) {
    CHECK(rank["planned_bytes"] == rank["measured_bytes"]);
  }
}

void check_same(const char* model, int processes, int devices, const std::string& ranks,
                const std::string& more) {
  INFO(model);
  const Scratch scratch;
  write_work(scratch, model);
  check_same(scratch, processes, devices, ranks, more);
}

}  // namespace

TEST_CASE("devices of several processes say what one processor says") {
  if (cannot_run()) return;
  check_same("llama3_tied", 2, 2, "-tp 2", kRecorded);
  check_same("llama3_tied", 2, 2, "-pp 2", kEager);
  check_same("qwen3_moe", 4, 4, "-tp 4", kEager);
}

TEST_CASE("stages and replicas of devices in several processes do so too") {
  if (cannot_run()) return;
  check_same("llama3_tied", 4, 4, "-tp 2 -pp 2", kEager);
  check_same("llama3_tied", 2, 4, "-tp 2 -pp 2", kEager);
  check_same("llama3_tied", 2, 4, "-tp 2 -dp 2", kEager);
}

TEST_CASE("devices of several processes see images") {
  if (cannot_run()) return;
  const std::string more =
      "--enforce-eager --max-num-batched-tokens 64 --allowed-local-media-path "
      "'" PLIMSOLL_SOURCE_DIR "/tests/data/images' ";
  for (const char* ranks : {"-tp 2", "-pp 2"}) {
    const Scratch scratch;
    write_images(scratch);
    check_same(scratch, 2, 2, ranks, more);
  }
}

TEST_CASE("devices of several processes are refused where they cannot talk") {
  if (cannot_run()) return;
  const Scratch scratch;
  write_work(scratch, "llama3_tied");
  const auto refusal = [&](const std::string& command, int status, const std::string& wanted) {
    const Outcome outcome = in_shell(scratch, command);
    INFO(outcome.err);
    CHECK(outcome.status == status);
    CHECK(outcome.err.find(wanted) != std::string::npos);
    CHECK(outcome.err.find(wanted) == outcome.err.rfind(wanted));
    CHECK(in_shell(scratch, "ls | grep fake_nccl").out.empty());
  };
  const std::string run = kRun + kEager + "-o out -tp 2 ";
  const auto with = [&](const std::string& variable) {
    return on_devices(2, 2, variable) + run + "--device cuda";
  };
  refusal(with("VLLM_NCCL_SO_PATH=/nowhere/libnccl.so.2"), 2, "NCCL is missing: install it");
  refusal(with("FAKE_NCCL_VERSION=21403"), 2, "NCCL 2.14.3 is too old");
  refusal(with("FAKE_NCCL_FAILS=init"), 10, "unhandled system error: no network interface");
  refusal(with("PLIMSOLL_RANKS_PER_DEVICE=2"), 2, "PLIMSOLL_RANKS_PER_DEVICE=2: ranks of several");
  // Each takes the only one that it sees for its own.
  refusal(on_devices(2, 1) + run + "--device cuda", 2, "Duplicate GPU detected");
  refusal(on_devices(1, 2) + run + ": -n 1 -x EMULATED_DEVICES=0 '" + kEmulated + "' " + run, 2,
          "device: cpu here, emulation in process 0");
}

TEST_CASE("a process of devices that is killed or stopped ends all, and the same command goes on") {
  if (cannot_run()) return;
  const std::tuple<const char*, const char*, int> disturbances[] = {
      {"-tp 2 ", "KILL", 1}, {"-pp 2 ", "STOP", 1}, {"-tp 2 ", "STOP", 0}};
  for (const auto& [width, signal, process] : disturbances) {
    INFO(width << signal << " to process " << process);
    const Scratch scratch;
    write_work(scratch, "llama3_tied");
    std::string input;
    for (int i = 0; i < 6; ++i) {
      input += "{\"prompt\":[5,9," + std::to_string(i) + "],\"max_tokens\":3,\"temperature\":0}\n";
    }
    scratch.write("in", input);
    const std::string run = kRun + kEager + width + "-o out ";
    const Outcome outcome = in_shell(
        scratch, on_devices(2, 2) + run +
                     "--device cuda & run=$!; for i in $(seq 3000); do test -s out.part && break; "
                     "sleep 0.01; done; one=$(pgrep -P $run -x plimsoll_emulat | sed -n " +
                     std::to_string(process + 1) + "p); kill -" + signal +
                     " $one; before=$(date +%s); wait $run; echo $? $(($(date +%s) - before)); ");
    INFO(outcome.out << outcome.err);
    int status = 0, seconds = 0;
    std::istringstream(outcome.out) >> status >> seconds;
    CHECK(status != 0);
    if (std::string(signal) == "STOP") CHECK(status == 10);
    CHECK(seconds <= 10);
    CHECK(in_shell(scratch, "pgrep -f '^" + kEmulated + " run model'").out.empty());
    const Outcome again =
        in_shell(scratch, on_devices(2, 2) + run + "--device cuda && '" + kEmulated + "' " + kRun +
                              kPieces + "-o whole --device cpu");
    INFO(again.err);
    REQUIRE(again.status == 0);
    CHECK(tokens(scratch, "out") == tokens(scratch, "whole"));
  }
}
