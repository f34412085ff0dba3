// What `plimsoll shard` says of shards that it has written or compared.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "cli/program.h"
#include "shard/model_folder.h"

using namespace plimsoll;
using Catch::Contains;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

/// Shards of a model of a file of tests/data, in "out"; what was said of them.
std::string said_of(const Scratch& scratch, const char* file, const std::string& name,
                    const std::string& flags = "") {
  const Json models = shard::read_fixture(file);
  const auto model =
      std::ranges::find_if(models, [&](const Json& each) { return each["name"] == name; });
  REQUIRE(model != models.end());
  shell(scratch, "rm -rf model out");
  shard::write_model(scratch, model->at("config"), model->at("recipe"));
  const Outcome outcome = shell(scratch, "plimsoll shard model -o out -tp 2" + flags);
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.out.empty());
  return outcome.err;
}

const std::string kQuantized = "written in load layout: what vLLM's loader fills";
const std::string kOwnHead = "config.json ties the head to the token table";
const std::string kLeftOut = "of the checkpoint's tensors in no shard";

}  // namespace

TEST_CASE("what is peculiar to shards is said of those, and not of plain ones") {
  const Scratch scratch;
  const Outcome plain = shell(scratch, "plimsoll shard $MODEL -o plain -tp 2");
  for (const std::string& peculiar : {kQuantized, kOwnHead, kLeftOut})
    CHECK_THAT(plain.err, !Contains(peculiar));
  struct Row {
    const char *name, *told;
  };
  for (const Row& row : {Row{"awq", "out: quantized (awq), written in load layout"},
                         Row{"awq", "writes the same with the Triton kernel"},
                         Row{"gptq", "lists the quantized layers as modules_in_block_to_quantize."},
                         Row{"fp8_block", "so that its loader refuses them."},
                         Row{"ct_w4a16", "writes packed ones as its kernels repacked them"}}) {
    INFO(row.name);
    const std::string said = said_of(scratch, "quantized_shards.json", row.name);
    CHECK_THAT(said, Contains(kQuantized) && Contains(row.told) && !Contains(kOwnHead) &&
                         !Contains(kLeftOut));
  }
  const char* tied = "llama, tied in config.json, with a head of its own";
  CHECK_THAT(said_of(scratch, "text_shards.json", tied),
             Contains("out: " + kOwnHead) && Contains("\"tie_word_embeddings\": false"));
  CHECK_THAT(said_of(scratch, "text_shards.json", tied, " --vllm-version 0.28.0"),
             !Contains(kOwnHead));
  CHECK_THAT(said_of(scratch, "text_shards.json", tied, " -q"), Catch::Equals(""));
  CHECK_THAT(said_of(scratch, "text_shards.json", "qwen3, attention biases"),
             Contains(kLeftOut + " (model.layers.0.self_attn.o_proj.bias), because"));
  const std::string biases =
      said_of(scratch, "text_shards.json", "laguna, router biases that vLLM drops");
  CHECK_THAT(biases, Contains(kLeftOut + " (model.layers.1.mlp.experts.e_score_correction_bias), "
                                         "because vLLM's LagunaForCausalLM computes without"));
}

TEST_CASE("the line that loads stages of a stated partition has the variable that states it") {
  const Scratch scratch;
  const std::string partition = "VLLM_PP_LAYER_PARTITION=1,5";
  CHECK_THAT(shell(scratch, partition + " plimsoll shard $MODEL -o out -tp 2 -pp 2").err,
             Contains("; load with " + partition +
                      " in the environment and --load-format sharded_state -tp 2 -pp 2\n"));
  CHECK_THAT(shell(scratch, "VLLM_PP_LAYER_PARTITION=6 plimsoll shard $MODEL -o one").err,
             Contains("; load with --load-format sharded_state -tp 1\n"));
}

TEST_CASE("shards that are sound are said to be, by their record or by their source") {
  const Scratch scratch;
  REQUIRE(shell(scratch, "plimsoll shard $MODEL -q -o out -tp 2").status == 0);
  const std::string verify = "plimsoll shard --verify out";
  CHECK(shell(scratch, verify).err == "plimsoll: out: every file is as its sidecar says\n");
  CHECK(shell(scratch, verify + " --source $MODEL").err ==
        "plimsoll: out: every file is what the source gives\n");
  CHECK(shell(scratch, verify + " -q").err.empty());
  // Each flag that contradicts the record is named, and what the record says.
  struct Row {
    const char *flags, *told;
  };
  for (const Row& row :
       {Row{"-pp 2", "--pipeline-parallel-size 2: out/plimsoll-shard.json says 1; leave"},
        Row{"--file-pattern 'r{rank}.safetensors'",
            "--file-pattern r{rank}.safetensors: out/plimsoll-shard.json says "
            "model-rank-{rank}-part-{part}.safetensors; leave the flag out"},
        Row{"--vllm-version 0.32.0", "--vllm-version 0.32.0: out/plimsoll-shard.json says "}}) {
    INFO(row.flags);
    const Outcome refused = shell(scratch, verify + " " + row.flags);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Contains(row.told));
  }
  CHECK(shell(scratch, verify + " --file-pattern 'model-rank-{rank}-part-{part}.safetensors'")
            .status == 0);
}
