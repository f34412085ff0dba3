// `plan --check` of a log of vLLM: samples/logs, whose numbers were logged in public.
#include <catch2/catch.hpp>

#include "cli/program.h"

using plimsoll::test::Outcome;
using plimsoll::test::Scratch;
using plimsoll::test::shell;

namespace {

const std::string kRoot = PLIMSOLL_SOURCE_DIR;
const std::string kQwen = kRoot + "/tests/data/vllm/configs/Qwen__Qwen3-8B.json";
const std::string kLog = kRoot + "/samples/logs/qwen3-8b-5090-first-boot.log";
const std::string kLaunch =
    " --vllm-version 0.24.0 --gpu 5090 --max-model-len 32768 --max-num-seqs 256 "
    "--max-num-batched-tokens 2048 --no-flashinfer-sampler";

}  // namespace

TEST_CASE("a log of vLLM is told from a report, and compared with the plan of its launch") {
  const Scratch scratch;
  const std::string check = "plimsoll plan --check " + kLog + " " + kQwen + kLaunch;
  const Outcome inside = shell(scratch, check + " --gpu-memory-utilization 0.92");
  INFO(inside.out << inside.err);
  CHECK(inside.status == 0);
  CHECK_THAT(inside.out, Catch::Contains("weights") && Catch::Contains("inside the bounds") &&
                             Catch::Contains("cold boot"));
  CHECK_THAT(inside.out, Catch::Contains("\n0.24.0,"));
  // The log's own line says the launch, and the release.
  const Outcome from_log = shell(scratch, "plimsoll plan " + kQwen + " --gpu 5090 --from " + kLog +
                                              " --check " + kLog + " --no-flashinfer-sampler");
  CHECK(from_log.out == inside.out);
  const Outcome outside = shell(scratch, check + " --gpu-memory-utilization 0.8");
  CHECK(outside.status == 6);
  CHECK_THAT(outside.out, Catch::Contains("outside the bounds"));
  scratch.write("empty.log", "INFO GPU KV cache size: abc tokens\n");
  const Outcome empty = shell(scratch, "plimsoll plan --check empty.log " + kQwen + kLaunch);
  CHECK(empty.status == 2);
  CHECK_THAT(empty.err, Catch::Contains("says no figure that the plan has"));
  for (const char* other : {"", "\x1f\x8b packed", "loading weights\n"}) {
    INFO(other);
    scratch.write("other", other);
    const Outcome refused = shell(scratch, "plimsoll plan --check other " + kQwen + kLaunch);
    CHECK(refused.status == 5);
    CHECK_THAT(refused.err,
               Catch::Contains("neither a report of run") && Catch::Contains("nor a log of vLLM"));
  }
  const Outcome alone = shell(scratch, "plimsoll plan --check " + kLog);
  CHECK(alone.status == 2);
  CHECK_THAT(alone.err, Catch::Contains("name MODEL, --gpu"));
  const Outcome cardless = shell(scratch, "plimsoll plan " + kQwen + " --check " + kLog);
  CHECK(cardless.status == 2);
  CHECK_THAT(cardless.err, Catch::Contains("--gpu NAME"));
}
