// Stages of a pipeline: what each holds, and which models vLLM does not divide.
#include <catch2/catch.hpp>

#include "base/json.h"
#include "plan/configs.h"
#include "plan/report/report.h"
#include "plan/solver.h"
#include "plan/vllm_plan.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

TEST_CASE("stages of a pipeline differ, and the tightest decides") {
  EngineArgs args = at({0, 19, 0});
  args.pipeline_parallel = 2;
  args.gpu_memory_utilization = 0.95;
  const PlanResult result = plan_of(llama_8b(), args);
  REQUIRE(result.stages.size() == 2);
  // Logged by vLLM 0.19 on two H100s: 1.10 GiB on the first stage, 1.88 on the last.
  CHECK(gib(result.stages[0].activation_peak_bytes) == Approx(1.10).epsilon(0.02));
  CHECK(gib(result.stages[1].activation_peak_bytes) == Approx(1.88).epsilon(0.02));
  CHECK(result.stage == 1);
  CHECK(result.num_gpu_blocks ==
        std::min(result.stages[0].num_gpu_blocks, result.stages[1].num_gpu_blocks));
  CHECK(result.activation_peak_bytes == result.stages[1].activation_peak_bytes);
  CHECK_THAT(to_text(result, 80), Catch::Contains("stage 1, the tightest"));
  const Json json = parse_json<Json>(to_json(result));
  CHECK(json["tightest_stage"] == 1);
  CHECK(json["stages"].size() == 2);
  CHECK(json["stages"][0]["layers"] == 16);
  CHECK_FALSE(parse_json<Json>(to_json(plan_of(llama_8b(), {}))).contains("stages"));
}

TEST_CASE("classes that know no stages hold embedding, norm and head on each of them") {
  EngineArgs args;
  args.pipeline_parallel = 2;
  const Json config = gemma2();
  const PlanResult result = plan_of(config, args);
  REQUIRE(result.stages.size() == 2);
  CHECK(result.stages[0].layers == result.stages[1].layers);
  CHECK(result.stages[0].parameter_bytes == result.stages[1].parameter_bytes);
  const PlanResult whole = plan_of(config, {});
  const int64_t outside =
      2 * (2 * config["vocab_size"].get<int64_t>() + 1) * config["hidden_size"].get<int64_t>();
  CHECK(2 * result.stages[0].parameter_bytes == whole.parameter_bytes + outside);
}

TEST_CASE("models that vLLM does not divide into stages are refused with more than one") {
  EngineArgs args;
  args.pipeline_parallel = 2;
  Json config = llama_8b();
  config["architectures"] = {"Mamba2ForCausalLM"};
  CHECK_THAT(refusal_of(config, args),
             Catch::Contains("Pipeline parallelism is not supported for this model") &&
                 Catch::Contains("Leave --pipeline-parallel-size out."));
  // is_pp_supported of vLLM 0.33's registry, and of the releases' sources.
  for (const auto& [name, release, refused] :
       std::vector<std::tuple<std::string, VllmVersion, bool>>{
           {"HrmTextForCausalLM", {0, 33, 0}, true},
           {"IQuestLoopCoderForCausalLM", {0, 33, 0}, true},
           {"DoryForCausalLM", {0, 33, 0}, true},
           {"OuroForCausalLM", {0, 26, 0}, true},
           {"OuroForCausalLM", {0, 27, 0}, false},  // transformers' class in its place
           {"GptOssForCausalLM", {0, 10, 1}, true},
           {"GptOssForCausalLM", {0, 10, 2}, false},
           {"DiffusionGemmaForBlockDiffusion", {0, 26, 0}, false},
           {"DiffusionGemmaForBlockDiffusion", {0, 27, 0}, true}}) {
    INFO(name << " " << version_text(release));
    config["architectures"] = {name};
    args.version = release;
    const bool said = refusal_of(config, args).find("`SupportsPP`") != std::string::npos;
    CHECK(said == refused);
  }
  config["architectures"] = {"MiniMaxM3SparseForCausalLM"};
  args.version = {0, 24, 0};
  CHECK_THAT(refusal_of(config, args), Catch::Contains("or use vLLM 0.25.0, the first release"));
}

TEST_CASE("stages for which a class makes no hidden states are refused in the worker's words") {
  EngineArgs args;
  args.pipeline_parallel = 2;
  Json config = llama_8b();
  for (const char* name : {"Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"}) {
    config["architectures"] = {name};
    CHECK_THAT(refusal_of(config, args),
               Catch::Contains(std::string("'") + name +
                               "' object has no attribute 'make_empty_intermediate_tensors'"));
  }
}

TEST_CASE("stages without experts do not launch where the class looks for one") {
  Json config = llama_8b();
  config["architectures"] = {"Qwen3MoeForCausalLM"};
  config["num_experts"] = 8;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 1024;
  for (int layer = 0; layer < 16; ++layer) config["mlp_only_layers"].push_back(layer);
  EngineArgs args;
  CHECK(refusal_of(config, args).empty());
  args.pipeline_parallel = 2;
  CHECK_THAT(refusal_of(config, args), Catch::Contains("No MoE layer found in model.layers") &&
                                           Catch::Contains("layers 0 to 15 have none") &&
                                           Catch::Contains("--pipeline-parallel-size"));
  args.version = {0, 10, 1};
  CHECK(refusal_of(config, args).empty());
}

TEST_CASE("a head that vLLM ties on every stage is refused more than one") {
  EngineArgs args;
  args.pipeline_parallel = 2;
  Json config = llama_8b();
  config["architectures"] = {"Ernie4_5_MoeForCausalLM"};
  config["tie_word_embeddings"] = true;
  CHECK_THAT(refusal_of(config, args), Catch::Contains("tie_weights"));
  config["tie_word_embeddings"] = false;
  CHECK(plan_of(config, args).stages.size() == 2);
}

TEST_CASE("the generic backend keeps a mask on every stage, and a scale where the table is") {
  EngineArgs args;
  args.pipeline_parallel = 2;
  Json config = llama_8b();
  config["architectures"] = {"GPTBigCodeForCausalLM"};
  config["max_position_embeddings"] = 1024;
  const PlanResult masked = plan_of(config, args);
  CHECK(masked.stages[0].buffer_bytes == masked.stages[1].buffer_bytes);
  CHECK(masked.stages[1].buffer_bytes > 1024 * 1024);
  config["architectures"] = {"VaultGemmaForCausalLM"};
  config["tie_word_embeddings"] = true;
  const PlanResult scaled = plan_of(config, args);
  CHECK(scaled.stages[0].buffer_bytes == scaled.stages[1].buffer_bytes);
}

TEST_CASE("VLLM_PP_LAYER_PARTITION divides the layers of a plan") {
  EngineArgs args;
  args.pipeline_parallel = 2;
  args.pipeline_partition = {20, 12};
  const PlanResult result = plan_of(llama_8b(), args);
  CHECK(result.stages[0].layers == 20);
  CHECK(result.stages[1].first_layer == 20);
  // Bytes of a layer.
  const int64_t layer = 2 * (4096 * (4096 + 1024) * 2 + int64_t{3} * 4096 * 14336 + 2 * 4096);
  args.pipeline_partition = {19, 13};
  const PlanResult other = plan_of(llama_8b(), args);
  CHECK(result.stages[0].parameter_bytes - other.stages[0].parameter_bytes == layer);
  args.pipeline_partition = {20, 13};
  CHECK_THAT(refusal_of(llama_8b(), args), Catch::Contains("the model has 32"));
}

TEST_CASE("a stage's plan counts the KV cache of its own layers alone") {
  EngineArgs args;
  args.pipeline_parallel = 2;
  args.pipeline_partition = {20, 12};
  const PlanResult result = plan_of(llama_8b(), args);
  REQUIRE(result.kv_kinds.size() == 1);
  CHECK(result.kv_kinds[0].layers == result.layers);
  const int64_t layer = 2 * 8 * 128 * 2;  // bytes of a token
  CHECK(result.kv_bytes_per_token == result.layers * layer);
  CHECK(result.bytes_per_block == result.block_size * result.layers * layer);
}

TEST_CASE("the report has the parts of the weights, which are the whole") {
  Json config = llama_8b();
  config["intermediate_size"] = 14400;  // gate and up: 225 MiB, in segments of 2 MiB
  EngineArgs args;
  args.lora = true;
  args.lora_slots = 1;
  args.lora_rank = 16;
  const PlanResult plan = plan_of(config, args);
  CHECK(plan.segment_bytes > 0);
  CHECK(plan.loading_peak_bytes == plan.weights_bytes - plan.adapter_bytes);  // made afterwards
  const Json json = parse_json<Json>(to_json(plan));
  CHECK(json["parameter_bytes"] == plan.parameter_bytes);
  CHECK(json["buffer_bytes"] == plan.buffer_bytes);
  CHECK(json["adapter_bytes"] == plan.adapter_bytes);
  CHECK(json["segment_bytes"] == plan.segment_bytes);
  CHECK(json["weights_bytes"] ==
        plan.parameter_bytes + plan.buffer_bytes + plan.adapter_bytes + plan.segment_bytes);
}

TEST_CASE("a cache that is told its blocks must fit on every stage") {
  EngineArgs args;
  args.pipeline_parallel = 2;
  args.max_model_len = 8192;
  args.blocks_override = 1024;
  const PlanResult small = plan_of(llama_8b(), args);
  REQUIRE(small.stages.size() == 2);
  CHECK(small.fits.value());
  const auto most_blocks = [&](const StageFigures& stage) {
    const int64_t left = small.total_bytes - stage.weights_bytes - stage.activation_peak_bytes -
                         stage.non_torch_bytes - stage.persistent_bytes;
    return left / small.bytes_per_block;
  };
  // The last stage has the head and the sampler's rows, and so the least room.
  const int64_t most = most_blocks(small.stages[1]);
  REQUIRE(most < most_blocks(small.stages[0]));
  args.blocks_override = most;
  CHECK(plan_of(llama_8b(), args).fits.value());
  args.blocks_override = most + 1;
  const PlanResult refused = plan_of(llama_8b(), args);
  CHECK_FALSE(refused.fits.value());
  CHECK_THAT(refused.reason, Catch::Contains("as --num-gpu-blocks-override asks"));
}
