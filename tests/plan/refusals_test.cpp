// Bounds at which vLLM still takes a launch's arguments, and one beyond them.
#include <catch2/catch.hpp>

#include "plan/configs.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

TEST_CASE("sampling is divided among ranks from one sequence a rank on") {
  EngineArgs args = at({0, 33, 0});
  args.sharded_sampling = true;
  args.tensor_parallel = 4;
  args.max_num_seqs = 4;
  CHECK(refusal_of(llama_8b(), args).empty());
  args.max_num_seqs = 3;
  CHECK_THAT(refusal_of(llama_8b(), args),
             Catch::Contains("max_num_seqs (3) is below tensor_parallel_size (4)"));
  args.tensor_parallel = 1;
  CHECK_THAT(refusal_of(llama_8b(), args), Catch::Contains("there is nothing to shard"));
}

TEST_CASE("model_max_length is taken as asked, also where positions are stretched less far") {
  Json config = llama_8b();
  config["model_max_length"] = 8192;
  config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 1.0}, {"original_max_position_embeddings", 4096}};
  EngineArgs args = at({0, 29, 0});
  for (const auto& [length, taken] :
       {std::pair{4096, true}, {4097, true}, {8192, true}, {8193, false}}) {
    INFO(length);
    args.max_model_len = length;
    CHECK(refusal_of(config, args).empty() == taken);
  }
  CHECK_THAT(refusal_of(config, args), Catch::Contains("model_max_length=8192"));
}

TEST_CASE("moe_wna16 is taken for checkpoints that are packed by AWQ or GPTQ alone") {
  EngineArgs args;
  args.quantization = "moe_wna16";
  const auto refused = [&](const Json& settings) {
    Json config = llama_8b();
    config["quantization_config"] = settings;
    return !refusal_of(config, args).empty();
  };
  CHECK_FALSE(refused({{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}}));
  CHECK_FALSE(refused({{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}}));
  CHECK(refused({{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}}));
}
