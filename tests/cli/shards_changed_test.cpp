// Shards of tiny models under drawn flags, verified, damaged and joined again: the same bytes and
// words as when tests/data/digests/shards.txt was written (README there).
#include <catch2/catch.hpp>

#include "cli/drawn_runs.h"
#include "like_cases.h"
#include "reference/recipe.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Scratch;

namespace {

using Words = std::vector<std::string>;

const Words kShardedModels = {"llama", "qwen3_moe", "gemma2", "phi3",
                              "opt",   "mixtral",   "mamba",  "gpt2"};

const Words kShardFlags = {"-tp 2",
                           "-tp 2",
                           "-tp 4",
                           "-pp 2",
                           "--dtype float32",
                           "--dtype float16",
                           "--max-file-size 100kB",
                           "--max-file-size none",
                           "--file-pattern 'of-{rank}-{part}.safetensors'",
                           "--file-pattern x.safetensors",
                           "--vllm-version 0.11.0",
                           "--quantization fp8",
                           "--quiet",
                           "--dry-run",
                           "--dry-run --format json"};

/// What follows on the shards in "out".
const Words kAfterSharding = {
    "plimsoll shard --verify out",
    "plimsoll shard --verify out --source model",
    "plimsoll shard --verify out --source other",
    "plimsoll shard --unshard out -o back; sums back",
    "plimsoll shard --unshard out -o out",
    "rm -f out/*-tp-1-*; plimsoll shard --verify out",
    "rm -f out/config.json; plimsoll shard --verify out",
    "f=$(ls out/*.safetensors 2>/dev/null | head -1); truncate -s -1 \"$f\" 2>/dev/null; "
    "plimsoll shard --verify out; plimsoll shard --verify out --source model; "
    "plimsoll shard --unshard out -o back"};

}  // namespace

TEST_CASE("shards drawn at random have the bytes that they had") {
  Digests digests("shards");
  for (const std::string& model : kShardedModels) {
    const Scratch scratch;
    const fs::path golden = kData / "golden/models" / model;
    write_checkpoint(golden, scratch.path("model"));
    write_checkpoint(kData / "golden/models/llama3_tied", scratch.path("other"));
    for (int draw_number = 0; draw_number < testing::times(24, 6); ++draw_number) {
      const std::string name = fmt::format("{}-{:02}", model, draw_number);
      Draw draw(name);
      Words flags;
      for (size_t count = draw.below(4); count > 0; --count) flags.push_back(draw.of(kShardFlags));
      const std::string partition = draw.below(5) == 0 ? "VLLM_PP_LAYER_PARTITION=1,1 " : "";
      const std::string command = fmt::format(
          "exec 2>&1; sums() {{ (cd $1 && echo * && cksum *.safetensors) 2>/dev/null; }}; "
          "rm -rf out back; "
          "{}plimsoll shard model -o out {}; echo $?; sums out; {}; echo $?",
          partition, fmt::join(flags, " "), draw.of(kAfterSharding));
      const test::Outcome outcome = test::shell(scratch, alone(command));
      digests.compare(name, {{command, plain(scratch, outcome.out)}});
    }
  }
  digests.finish(testing::takes_all_cases());
}
