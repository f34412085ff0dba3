// The releases at which one figure, verdict or message of a plan changes, watched alone: dates that
// fall together hide each other in a whole answer.
#include <catch2/catch.hpp>

#include "plan/scene.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

std::vector<Scene> scenes() {
  return {
      {"sequences on an A100",
       llama_8b(),
       nothing,
       "a100-80gb",
       kSequences,
       {"8.0", "8.4", "8.5", "9.0"}},
      {"tokens on an A100",
       llama_8b(),
       nothing,
       "a100-80gb",
       kTokens,
       {"5.3", "6.5", "8.5", "9.0"}},
      {"sequences on an H100", llama_8b(), nothing, "h100", kSequences, {"8.0"}},
      {"tokens on an H20", llama_8b(), nothing, "h20", kTokens, {"5.3", "6.5", "8.5"}},
      {"tokens on a B200", llama_8b(), nothing, "b200", kTokens, {"5.3", "6.5", "8.5", "28.0"}},
      {"sequences, few tokens",
       llama_8b(),
       [](EngineArgs& args) { args.max_num_batched_tokens = 64; },
       "h100",
       kSequences,
       {"5.3", "8.0", "10.1"}},
      {"tokens, few sequences",
       llama_8b(),
       [](EngineArgs& args) {
         args.max_num_seqs = 4;
         args.max_model_len = 256;
       },
       "h100",
       kTokens,
       {"8.0", "11.1"}},
      {"the share of the card", llama_8b(), nothing, "h100", kBudget, {"20.0"}},
      {"graphs", llama_8b(), same_step, "h100", kGraphs, {"5.3", "8.0", "11.0", "11.1"}},
      {"graphs in the budget",
       llama_8b(),
       same_step,
       "h100",
       counts_graphs,
       {"5.3", "20.0", "23.0", "29.0"}},
      {"graphs in the budget, estimated on demand",
       llama_8b(),
       [](EngineArgs& args) { args.estimate_graphs = true; },
       "h100",
       counts_graphs,
       {"18.0", "23.0", "29.0"}},
      {"graphs in the budget, no second runner before 0.29",
       gpt_oss(24, 32),
       nothing,
       "h100",
       counts_graphs,
       {"20.0"}},
      {"memory outside torch",
       llama_8b(),
       same_step,
       "h100",
       kOutsideTorch,
       {"5.3", "6.5", "8.0", "9.1", "18.0", "33.0"}},
      {"memory outside torch, small card",
       llama_8b(),
       same_step,
       "4090",
       kOutsideTorch,
       {"5.3", "6.5", "8.0", "9.1", "18.0", "33.0"}},
      {"memory outside torch, two ranks",
       llama_8b(),
       [](EngineArgs& args) { args.tensor_parallel = 2; },
       "h100",
       kOutsideTorch,
       {"8.0", "9.1", "16.0", "25.0", "33.0"}},
      {"activations",
       llama_8b(),
       same_step,
       "h100",
       kActivations,
       {"5.3", "8.0", "11.0", "17.0", "33.0"}},
      {"activations, small card, wide step",
       llama_8b(),
       [](EngineArgs& args) {
         args.max_num_seqs = 8;
         args.max_num_batched_tokens = 8192;
       },
       "4090",
       kActivations,
       {"5.3", "8.0", "33.0"}},
      {"no room for the cache",
       llama_8b(),
       [](EngineArgs& args) {
         args.gpu_memory_utilization = 0.66;
         args.enforce_eager = true;
       },
       "4090",
       reason,
       {"9.1", "11.0", "13.0", "22.0", "23.0", "27.0", "29.0", "33.0"}},
      {"a context that is too long for the card",
       llama_8b(),
       [](EngineArgs& args) {
         same_step(args);
         same_share(args);
       },
       "4090",
       reason,
       {"5.3", "6.5", "8.0", "8.4", "9.1", "11.0", "13.0", "14.0", "17.0", "18.0", "20.0", "22.0",
        "23.0", "27.0", "29.0", "33.0"}},
      {"a card that others use",
       llama_8b(),
       [](EngineArgs& args) { args.reserved = int64_t{20} << 30; },
       "h100",
       reason,
       {"9.1", "14.0", "20.0"}},
      {"the null block, of drafts by n-grams",
       llama_8b(),
       [](EngineArgs& args) {
         draft("ngram")(args);
         args.available_kv = int64_t{1} << 30;
       },
       "4090",
       kLongest,
       {"29.0"}},
      {"tokens of the cache, two groups",
       gpt_oss(24, 32),
       [](EngineArgs& args) {
         same_step(args);
         args.available_kv = int64_t{8} << 30;
       },
       "h100",
       kCacheTokens,
       {"20.1", "26.0"}},
      {"tokens in flight", gpt_oss(24, 32), same_step, "h100", needs, {"9.1", "26.0"}},
      {"tokens in flight, two stages",
       gpt_oss(24, 32),
       [](EngineArgs& args) {
         same_step(args);
         args.pipeline_parallel = 2;
       },
       "h100",
       needs,
       {"10.1", "10.2", "26.0", "29.0"}},  // the class of 0.10.1 takes one stage alone
      {"groups of layers", uneven_windows(), same_step, "h100", groups, {"9.1", "18.0"}},
      {"states without their own groups",
       hybrid(),
       without_groups,
       "h100",
       is_fit,
       {"9.1", "10.2", "27.0"}},
      {"more sequences than blocks of state",
       hybrid(),
       [](EngineArgs& args) {
         args.max_num_seqs = 2048;
         args.max_num_batched_tokens = 8192;
         args.gpu_memory_utilization = 0.3;
         args.available_kv = int64_t{2} << 30;
       },
       "h100",
       is_fit,
       {"9.1", "20.0"}},
      {"more sequences than blocks of state, latent attention",
       kimi_linear(),
       [](EngineArgs& args) {
         args.max_num_seqs = 2048;
         args.max_num_batched_tokens = 8192;
         args.available_kv = int64_t{1} << 30;
       },
       "a100-80gb",
       is_fit,
       {"11.1", "22.0"}},
      {"adapters of rank 1",
       llama_8b(),
       [](EngineArgs& args) {
         args.lora = true;
         args.lora_rank = 1;
       },
       "h100",
       is_fit,
       {"11.1"}},
      {"adapters and drafts",
       llama_8b(),
       [](EngineArgs& args) {
         args.lora = true;
         draft("eagle")(args);
         args.max_num_seqs = 256;
         args.max_num_batched_tokens = 512;
       },
       "h100",
       is_fit,
       {"9.0", "11.1"}},
      {"experts asked of a model without",
       llama_8b(),
       [](EngineArgs& args) { args.expert_parallel = true; },
       "h100",
       is_fit,
       {"8.0"}},
      {"a context beyond the model",
       llama_8b(),
       [](EngineArgs& args) { args.max_model_len = 200000; },
       "h100",
       is_fit,
       {"10.2"}},
      {"fp8 on a T4", llama_8b(), quantize("fp8", "float16"), "t4", is_fit, {"5.2", "14.0"}},
      {"fp8 on a V100",
       llama_8b(),
       quantize("fp8", "float16"),
       "v100-32gb",
       is_fit,
       {"5.2", "14.0"}},
      {"GPTQ by Marlin on a V100",
       quantized(with(kGptq, {{"quant_method", "gptq_marlin"}})),
       [](EngineArgs& args) { args.dtype = "float16"; },
       "v100-32gb",
       is_fit,
       {"14.0", "22.0"}},
      {"AWQ by Marlin on a T4",
       quantized(with(kGptq, {{"quant_method", "awq_marlin"}})),
       [](EngineArgs& args) {
         args.dtype = "float16";
         args.max_model_len = 1024;
       },
       "t4",
       is_fit,
       {"14.0"}},
      {"a cache of 16 bits of another type than the model",
       llama_8b(),
       [](EngineArgs& args) { args.kv_cache_dtype = "float16"; },
       "h100",
       is_fit,
       {"33.0"}},
      {"ModelOpt on an A100", llama_8b(), quantize("modelopt"), "a100-80gb", is_fit, {"27.0"}},
      {"ModelOpt in 4 bits on a T4",
       llama_8b(),
       [](EngineArgs& args) {
         quantize("modelopt_fp4", "float16")(args);
         args.max_model_len = 1024;
       },
       "t4",
       is_fit,
       {"14.0"}},
      {"AWQ in float32", llama_8b(), quantize("awq", "float32"), "h100", is_fit, {"30.0"}},
      {"int8 in float32",
       quantized(kInt8),
       [](EngineArgs& args) { args.dtype = "float32"; },
       "h100",
       is_fit,
       {"20.0"}},
      {"GPTQ in activation order",
       quantized(with(kGptq, {{"desc_act", true}})),
       nothing,
       "h100",
       is_fit,
       {"30.0"}},
      {"packed integers in activation order",
       quantized(kOrdered),
       nothing,
       "h100",
       is_fit,
       {"30.0"}},
      {"a length that vLLM finds",
       llama_8b(),
       [](EngineArgs& args) { args.max_model_len = -1; },
       "h100",
       is_fit,
       {"14.0"}},
      {"YaRN", qwen_with_yarn(), nothing, "h100", length_notes, {"30.0"}},
      {"longrope",
       with(llama_8b(),
            {{"original_max_position_embeddings", 4096}, {"rope_scaling", {{"type", "longrope"}}}}),
       nothing,
       "h100",
       length_notes,
       {"11.1"}},
      {"Gemma 2 on a card without bfloat16",
       gemma2(),
       nothing,
       "v100-32gb",
       [](const PlanResult& result) { return result.dtype; },
       {"9.1"}},
      {"float16 of Gemma 3",
       with(gemma2(), {{"model_type", "gemma3_text"}}),
       [](EngineArgs& args) { args.dtype = "float16"; },
       "h100",
       [](const PlanResult& result) { return result.dtype; },
       {"10.2"}},
      {"float16 of GLM 4",
       with(llama_8b(), {{"model_type", "glm4"}}),
       [](EngineArgs& args) { args.dtype = "float16"; },
       "h100",
       [](const PlanResult& result) { return result.dtype; },
       {"9.1"}},
      {"float16 of PLaMo 2",
       with(llama_8b(), {{"model_type", "plamo2"}}),
       [](EngineArgs& args) { args.dtype = "float16"; },
       "h100",
       [](const PlanResult& result) { return result.dtype; },
       {"9.1", "27.0"}},
      {"weights without images",
       sample("gemma-3-27b-it.json"),
       [](EngineArgs& args) {
         args.limits = {{"image", {}}};
       },
       "h100",
       kWeights,
       {"15.0"}},
      {"weights of the language alone",
       sample("gemma-3-27b-it.json"),
       [](EngineArgs& args) { args.language_only = true; },
       "h100",
       kWeights,
       {"17.0"}},
      {"notes of a model with images",
       sample("gemma-3-27b-it.json"),
       same_step,
       "h100",
       notes,
       {"8.1", "10.0"}},
      {"notes of bitsandbytes",
       llama_8b(),
       quantize("bitsandbytes"),
       "h100",
       notes,
       {"8.0", "8.3", "28.0"}},
  };
}

}  // namespace

TEST_CASE("each figure and refusal changes at the releases that changed it") {
  for (const Scene& scene : scenes()) {
    INFO(scene.name);
    CHECK(changes_of([&](const VllmVersion& at) { return answer(scene, at); }) == scene.changes);
  }
}
