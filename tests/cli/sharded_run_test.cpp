// `run --load-format sharded_state` as a user calls it.
#include <catch2/catch.hpp>

#include "cli/program.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;
using test::shell;

TEST_CASE("a run from shards prints what the run from their source prints") {
  const Scratch scratch;
  scratch.write("in", R"({"prompt":"To be","max_tokens":12,"temperature":0,"logprobs":2})"
                      "\n");
  const std::string flags = " --served-model-name m -q -i in";
  const Outcome expected = shell(scratch, "plimsoll run $MODEL" + flags);
  REQUIRE(expected.status == 0);
  const Outcome sharded =
      shell(scratch,
            "plimsoll shard $MODEL -o named -tp 2 --file-pattern '{rank}-{part}.safetensors' && "
            "plimsoll shard $MODEL -o out && rm out/plimsoll-shard.json");
  INFO(sharded.err);
  REQUIRE(sharded.status == 0);
  for (const char* from :
       {"out --load-format sharded_state",
        "named --load-format sharded_state --file-pattern '{rank}-{part}.safetensors'",
        "named --load-format=sharded_state --model-loader-extra-config "
        "'{\"pattern\": \"{rank}-{part}.safetensors\"}'"}) {
    const Outcome outcome = shell(scratch, std::string("plimsoll run ") + from + flags);
    INFO(from << ": " << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.out == expected.out);
  }
}

TEST_CASE("answers of a run from shards belong to the shards of one pattern") {
  const Scratch scratch;
  scratch.write("in", R"({"prompt":"To be","max_tokens":2})"
                      "\n");
  REQUIRE(
      shell(scratch, "plimsoll shard $MODEL -o named --file-pattern '{rank}-{part}.safetensors'")
          .status == 0);
  const std::string run =
      "plimsoll run named --load-format sharded_state -i in -o answers --file-pattern ";
  REQUIRE(shell(scratch, run + "'{rank}-{part}.safetensors'").status == 0);
  CHECK_THAT(shell(scratch, run + "'{rank}-{part}.safetensors'").err,
             Catch::Contains("complete already"));
  const Outcome other = shell(scratch, run + "'other-{rank}-{part}.safetensors'");
  CHECK(other.status == 8);
  CHECK_THAT(other.err, Catch::Contains("file_pattern"));
}

TEST_CASE("shards are named when they are taken for a checkpoint, and the other way round") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "plimsoll shard $MODEL -o out -tp 2").status == 0);
  const auto run = [&](const std::string& flags) {
    return shell(scratch, "echo '{\"prompt\":\"To be\"}' | plimsoll run " + flags);
  };
  const Outcome bare = run("out");
  CHECK(bare.status == 5);
  CHECK(bare.err.find("--load-format sharded_state") != std::string::npos);
  const Outcome plain = run("$MODEL --load-format sharded_state");
  CHECK(plain.status == 5);
  CHECK(plain.err.find("--file-pattern") != std::string::npos);
  CHECK(run("$MODEL --file-pattern x").status == 2);
  CHECK(run("out --load-format sharded_state --model-loader-extra-config '{\"x\":1}'").status == 2);
  CHECK(run("out --load-format gguf").status == 2);
}
