// `run` on several ranks as a user calls it.
#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/program.h"
#include "cli/rank_lines.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;
using test::shell;
using test::write_rank_lines;

TEST_CASE("ranks of every kind print what one rank prints") {
  const Scratch scratch;
  write_rank_lines(scratch);
  for (const char* dtype : {"float32", "bfloat16"}) {
    const std::string run =
        std::string("plimsoll run $MODEL -q -i in --overwrite --report r --dtype ") + dtype;
    REQUIRE(shell(scratch, run + " -o one").status == 0);
    for (const char* ranks :
         {"-pp 2", "-pp 3 --threads 1", "-pp 6 --max-num-seqs auto --cpu-kvcache-space 0.1",
          "-dp 2", "-dp 3 -pp 2 --threads 2", "-tp 2", "-tp 2 -pp 3 -dp 2 --threads 3"}) {
      INFO(ranks << ", " << dtype);
      const Outcome outcome = shell(scratch, run + " -o more " + ranks + " && cmp one more");
      CHECK(outcome.err.empty());
      CHECK(outcome.status == 0);
    }
  }
}

TEST_CASE("tensor-parallel ranks take steps of which no logits are wanted") {
  const Scratch scratch;
  scratch.write("in", R"({"prompt":"To be, or not to be, that is the question","max_tokens":5})"
                      "\n");
  const std::string run = "plimsoll run $MODEL -q -i in --max-num-seqs 1 ";
  REQUIRE(shell(scratch, run + "-o one").status == 0);
  const Outcome outcome =
      shell(scratch, run + "-o more -tp 2 --max-num-batched-tokens 8 && cmp one more");
  CHECK(outcome.err.empty());
  CHECK(outcome.status == 0);
}

TEST_CASE("a run goes on with another number of stages") {
  const Scratch scratch;
  write_rank_lines(scratch);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 0);
  // Ended by a signal after the first lines.
  const Outcome outcome =
      shell(scratch,
            "\"$PROGRAM\" run $MODEL -q -i in -o out --max-num-seqs 1 --grace 0s & "
            "for i in $(seq 3000); do test -s out.part -o -e out && break; sleep 0.01; done; "
            "kill -TERM $!; wait $!; plimsoll run $MODEL -q -i in -o out -pp 2 && cmp whole out");
  INFO(outcome.err);
  CHECK(outcome.status == 0);
}

TEST_CASE("VLLM_PP_LAYER_PARTITION divides a run, and the report says what each rank read") {
  const Scratch scratch;
  write_rank_lines(scratch);
  const auto ranks_of = [&](const std::string& partition) {
    const Outcome outcome = shell(scratch, "VLLM_PP_LAYER_PARTITION=" + partition +
                                               " plimsoll run $MODEL -q -i in -o out --overwrite "
                                               "--report r -pp 2");
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const Json report = parse_json<Json>(scratch.read("r"));
    CHECK(report["memory"]["within_plan"] == true);
    return report["ranks"];
  };
  const Json even = ranks_of("3,3"), uneven = ranks_of("1,5");
  CHECK(uneven[0]["layers"] == 1);
  CHECK(uneven[1]["first_layer"] == 1);
  CHECK(uneven[0]["checkpoint_bytes_read"] < even[0]["checkpoint_bytes_read"]);
  const auto sum = [](const Json& ranks) {
    return ranks[0]["checkpoint_bytes_read"].get<int64_t>() +
           ranks[1]["checkpoint_bytes_read"].get<int64_t>();
  };
  CHECK(sum(even) == sum(uneven));
}

TEST_CASE("each rank reads its share, of a checkpoint or of shards that were cut for as many") {
  const Scratch scratch;
  write_rank_lines(scratch);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o one").status == 0);
  REQUIRE(shell(scratch, "plimsoll shard $MODEL -q -o cut -tp 2").status == 0);
  for (const char* model : {"$MODEL", "cut --load-format sharded_state"}) {
    INFO(model);
    const Outcome outcome = shell(scratch, std::string("plimsoll run ") + model +
                                               " -q -i in -o out --overwrite --report r -tp 2 && "
                                               "cmp one out");
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const Json report = parse_json<Json>(scratch.read("r"));
    CHECK(report["memory"]["within_plan"] == true);
    const Json& ranks = report["ranks"];
    REQUIRE(ranks.size() == 2);
    CHECK(ranks[1]["tensor_rank"] == 1);
    CHECK(ranks[0]["checkpoint_bytes_read"] == ranks[1]["checkpoint_bytes_read"]);
    const auto whole =
        static_cast<int64_t>(std::filesystem::file_size(test::kModel + "/model.safetensors"));
    CHECK(ranks[0]["checkpoint_bytes_read"].get<int64_t>() < whole * 6 / 10);
  }
}

TEST_CASE("ranks that cannot be are refused by name") {
  const Scratch scratch;
  write_rank_lines(scratch);
  const auto refusal = [&](const std::string& before, const std::string& flags) {
    const Outcome outcome =
        shell(scratch, before + " plimsoll run $MODEL -i in -o out --overwrite " + flags);
    CHECK(outcome.status == 2);
    return outcome.err;
  };
  using Catch::Contains;
  CHECK_THAT(refusal("", "-pp 7"), Contains("--pipeline-parallel-size 7: the model has 6 layers"));
  CHECK_THAT(refusal("VLLM_PP_LAYER_PARTITION=2,2", "-pp 2"),
             Contains("VLLM_PP_LAYER_PARTITION=2,2"));
  CHECK_THAT(refusal("VLLM_PP_LAYER_PARTITION=0,6", "-pp 2"), Contains("none of the 6 layers"));
  CHECK_THAT(refusal("", "-tp 4"),
             Contains("qkv_proj.weight has 6 query heads, which 4 does not divide") &&
                 Contains("; 2 would do"));
  for (const char* width : {"-tp 3", "-tp 16"}) {
    CHECK_THAT(refusal("", width), Contains("run has 2, 4 or 8 ranks") &&
                                       Contains("--pipeline-parallel-size makes more") &&
                                       Contains("; 2 would do"));
  }
}
