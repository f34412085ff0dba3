// Run takes what was planned: its dtype, its memory on each rank, its sequences.
#include <catch2/catch.hpp>

#include "cli/planned.h"
#include "cli/program.h"

using namespace plimsoll;
using test::plan_of;
using test::Scratch;
using test::shell;

namespace {

// The report of a run of `in` in the scratch folder.
Json report_of_run(const Scratch& scratch, const std::string& model, const std::string& flags) {
  const std::string command =
      "plimsoll run " + model + " -q --overwrite -i in -o out --report r " + flags;
  REQUIRE(shell(scratch, command).status == 0);
  return parse_json<Json>(scratch.read("r"));
}

}  // namespace

TEST_CASE("a config without dtype: the weights' headers say it, else 16 bits are taken and told") {
  const Scratch scratch;
  shell(scratch,
        "mkdir m; cp $MODEL/model.safetensors m/; grep -v '\"dtype\"' $MODEL/config.json "
        "> m/config.json; cp m/config.json bare.json");
  const Json folder = plan_of(scratch, "m");
  CHECK(folder["dtype"] == "bfloat16");
  CHECK_FALSE(folder.contains("notes"));
  const Json bare = plan_of(scratch, "bare.json");
  CHECK(bare["dtype"] == "bfloat16");
  CHECK_THAT(bare["notes"][0].get<std::string>(), Catch::Contains("--dtype"));
}

TEST_CASE("without a dtype in the config run takes that of the weights, as plan says") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":1}\n");
  shell(scratch,
        "mkdir m; cp $MODEL/*.json m/; grep -v '\"dtype\"' $MODEL/config.json > m/config.json; "
        "sed 's/\"BF16\"/\"F16\" /g' $MODEL/model.safetensors > m/model.safetensors");
  CHECK(plan_of(scratch, "m")["dtype"] == "float16");
  CHECK(report_of_run(scratch, "m", "")["dtype"] == "float16");
  REQUIRE(shell(scratch, "plimsoll shard m -o s -tp 2").status == 0);
  CHECK(report_of_run(scratch, "s", "--load-format sharded_state")["dtype"] == "float16");
}

TEST_CASE("a model of float64 is run in float32") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":8}\n");
  shell(scratch,
        "mkdir m; cp $MODEL/* m/; sed 's/\"bfloat16\"/\"float64\"/' $MODEL/config.json > "
        "m/config.json");
  CHECK(plan_of(scratch, "m")["dtype"] == "float32");
  CHECK(report_of_run(scratch, "m", "")["dtype"] == "float32");
  const std::string answers = scratch.read("out");
  report_of_run(scratch, "$MODEL", "--dtype float32");
  CHECK(scratch.read("out") == answers);
}

TEST_CASE("run takes what plan says, with the same flags") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":1}\n");
  for (const char* flags : {"", "--max-model-len 128 --max-num-seqs 3 --threads 1",
                            "--max-num-batched-tokens 64 --max-num-seqs 64 --dtype float32",
                            "--cpu-kvcache-space 0.01 --block-size 8"}) {
    INFO(flags);
    const Json plan = plan_of(scratch, std::string("$MODEL ") + flags);
    const Json report = report_of_run(scratch, "$MODEL", flags);
    CHECK(test::sum_of_parts(plan) == report["memory"]["planned_bytes"].get<int64_t>());
    CHECK(plan["num_gpu_blocks"] == report["plan"]["kv_blocks"]);
  }
  for (const char* flags : {"-pp 2", "-pp 2 -dp 2 --threads 2",
                            "-pp 3 --max-model-len 128 --max-num-seqs 3 --threads 1",
                            "-pp 6 --cpu-kvcache-space 0.01 --max-model-len auto", "-tp 2",
                            "-tp 2 -pp 2 -dp 2 --threads 2"}) {
    INFO(flags);
    const Json plan = plan_of(scratch, std::string("$MODEL ") + flags);
    const Json report = report_of_run(scratch, "$MODEL", flags);
    const bool staged = plan.contains("stages");
    const size_t stages = staged ? plan["stages"].size() : 1;
    const size_t tensor = std::string(flags).starts_with("-tp 2") ? 2 : 1;
    REQUIRE(report["ranks"].size() % (stages * tensor) == 0);
    for (size_t i = 0; i < report["ranks"].size(); ++i) {
      const Json& rank = report["ranks"][i];
      const Json& stage = staged ? plan["stages"][i / tensor % stages] : plan;
      const size_t copy = i / (stages * tensor);
      // Copies have the weights of the first.
      const int64_t borrowed = copy == 0 ? 0 : stage["weights_bytes"].get<int64_t>();
      CHECK(test::sum_of_parts(stage) - borrowed == rank["planned_bytes"].get<int64_t>());
      CHECK(rank["measured_bytes"] == rank["planned_bytes"]);
      CHECK(rank["copy"] == copy);
      CHECK(rank["tensor_rank"] == i % tensor);
      if (staged) {
        CHECK(rank["first_layer"] == stage["first_layer"]);
        CHECK(rank["layers"] == stage["layers"]);
      }
      if (copy > 0) CHECK(rank["checkpoint_bytes_read"] == 0);
    }
    CHECK(plan["num_gpu_blocks"] == report["plan"]["kv_blocks"]);
    CHECK(plan["max_num_seqs"] == report["plan"]["max_num_seqs"]);
  }
  const Json space = plan_of(scratch, "$MODEL --block-size 16 --max-num-seqs 4000");
  const auto small =
      shell(scratch, "VLLM_CPU_KVCACHE_SPACE=0.02 plimsoll plan $MODEL --format json");
  CHECK(parse_json<Json>(small.out)["kv_cache_bytes"].get<int64_t>() <= int64_t{1} << 25);
  CHECK(space["kv_cache_bytes"] > int64_t{1} << 25);
}
