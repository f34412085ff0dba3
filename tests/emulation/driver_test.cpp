// Messages on a driver that shows the program no device (program.cpp: EMULATED_DRIVER).
#include <catch2/catch.hpp>

#include "cli/program.h"
#include "reference/recipe.h"

using namespace plimsoll;
using Catch::Contains;
using test::Outcome;
using test::Scratch;

namespace {

Outcome emulated(const Scratch& scratch, const std::string& variables, const std::string& line) {
  return test::shell(scratch, "unset PLIMSOLL_DEVICE; " + variables +
                                  " '" PLIMSOLL_BINARY_DIR "/plimsoll_emulated' " + line);
}

}  // namespace

TEST_CASE("a driver too old for the runtime is told where the CPU is taken in a card's place") {
  const Scratch scratch;
  testing::write_checkpoint(PLIMSOLL_SOURCE_DIR "/tests/data/golden/models/llama",
                            scratch.path("model"));
  scratch.write("in", R"({"prompt":[5,9],"max_tokens":2,"temperature":0})"
                      "\n");
  const std::string line =
      "run model --skip-tokenizer-init --progress none -i in -o out --overwrite ";
  const char* old = "EMULATED_DRIVER=12040";
  const Outcome chosen = emulated(scratch, old, line + "--report report");
  INFO(chosen.err);
  CHECK(chosen.status == 0);
  CHECK_THAT(chosen.err, Contains("running on the CPU: the driver runs CUDA up to 12.4, this build "
                                  "is for 13.0: update the driver"));
  CHECK(parse_json<Json>(scratch.read("report"))["device"] == "cpu");
  const Outcome wanted = emulated(scratch, old, line + "--device cuda");
  CHECK(wanted.status == 2);
  CHECK_THAT(wanted.err, Contains("--device cuda: the driver runs CUDA up to 12.4"));
  CHECK_THAT(emulated(scratch, old, line + "--device cpu").err, !Contains("driver"));
}
