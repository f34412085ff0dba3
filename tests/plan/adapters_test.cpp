// LoRA adapters in vLLM's memory: factors of the layers that each class adapts.
#include <catch2/catch.hpp>

#include "base/json.h"
#include "plan/configs.h"
#include "plan/vllm_plan.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

/// Bytes of three adapters of rank 32.
int64_t adapter_bytes(const Json& config, VllmVersion version) {
  EngineArgs args = at(version);
  args.lora = true;
  args.lora_slots = 3;
  args.lora_rank = 32;
  return plan_of(config, args).adapter_bytes;
}

}  // namespace

TEST_CASE("adapters take factors of every linear layer") {
  EngineArgs args;
  args.max_model_len = 1024;
  Json config = unknown_decoder();
  config["architectures"] = {"LlamaForCausalLM"};
  const hardware::Gpu& gpu = hardware::find_gpu("h100");
  args.estimate_graphs = false;
  const PlanResult without = plan_vllm({config, "config.json"}, args, &gpu);
  args.lora = true;
  args.lora_slots = 3;
  args.lora_rank = 32;
  const PlanResult with = plan_vllm({config, "config.json"}, args, &gpu);
  CHECK(with.cuda_graphs == 2 * without.cuda_graphs);
  // inputs + outputs of q, k, v, o, gate, up, down; per layer, rank, slot, 2 bytes.
  const int64_t factors = (1024 + 1024) + 2 * (1024 + 256) + (1024 + 1024) + 3 * (1024 + 4096);
  // Of the token table and of the output: Llama's class adapts both.
  const int64_t ends = 2 * (config["vocab_size"].get<int64_t>() + 1024);
  CHECK(without.kv_cache_bytes - with.kv_cache_bytes == (factors * 8 + ends) * 32 * 3 * 2);
}

TEST_CASE("adapters of the table are the first stage's, those of the output the last one's") {
  EngineArgs args;
  args.max_model_len = 1024;
  args.pipeline_parallel = 2;
  args.lora = true;
  args.lora_slots = 3;
  args.lora_rank = 32;
  Json config = unknown_decoder();
  config["architectures"] = {"LlamaForCausalLM"};
  const int64_t layer = (1024 + 1024) + 2 * (1024 + 256) + (1024 + 1024) + 3 * (1024 + 4096);
  const int64_t end = config["vocab_size"].get<int64_t>() + 1024;
  const auto check = [&](const std::vector<int64_t>& factors) {
    const PlanResult plan = plan_of(config, args);
    REQUIRE(plan.stages.size() == factors.size());
    for (size_t i = 0; i < factors.size(); ++i)
      CHECK(plan.stages[i].adapter_bytes == factors[i] * 32 * 3 * 2);
  };
  check({4 * layer + end, 4 * layer + end});
  args.pipeline_parallel = 4;
  check({2 * layer + end, 2 * layer, 2 * layer, 2 * layer + end});
}

TEST_CASE("the first boot's peak has the adapters of the table beside the table") {
  EngineArgs args;
  args.max_num_batched_tokens = 2048;
  args.max_num_seqs = 64;
  const PlanResult plain = plan_of(llama_8b(), args);
  REQUIRE(plain.cold);
  args.lora = true;
  args.lora_slots = 3;
  args.lora_rank = 32;
  const PlanResult adapted = plan_of(llama_8b(), args);
  CHECK(adapted.cold->activation_peak_bytes - plain.cold->activation_peak_bytes ==
        int64_t{128256} * 32 * 3 * 2);
}

TEST_CASE("adapters before 0.12 may add 256 tokens, beside the table and beside the output") {
  for (const auto& [vocabulary, padded] : {std::pair{32000, 32000}, {32100, 32256}}) {
    INFO(vocabulary);
    Json config = unknown_decoder();
    config["architectures"] = {"LlamaForCausalLM"};
    config["vocab_size"] = vocabulary;
    const auto adapters = [&](VllmVersion version) { return adapter_bytes(config, version); };
    const int64_t factors = (256 + padded - vocabulary) * 32;
    CHECK(adapters({0, 11, 0}) - adapters({0, 12, 0}) == (factors + 2 * 256 * 1024) * 3 * 2);
  }
}

TEST_CASE("Mistral's adapters of its table and output end with 0.14") {
  Json config = unknown_decoder();
  config["architectures"] = {"MistralForCausalLM"};
  const auto adapters = [&](VllmVersion version) { return adapter_bytes(config, version); };
  const int64_t layers = adapters({0, 15, 0});
  CHECK(layers == adapters(model::kNewestRelease));
  for (const VllmVersion& version : {VllmVersion{0, 12, 0}, VllmVersion{0, 14, 1}})
    CHECK(adapters(version) - layers == int64_t{2} * (32000 + 1024) * 32 * 3 * 2);
}

TEST_CASE("adapters of a class that takes none are refused, by release") {
  Json config = llama_8b();
  EngineArgs args;
  args.lora = true;
  const auto refusal = [&](const char* name, const VllmVersion& version) {
    config["architectures"] = {name};
    args.version = version;
    return refusal_of(config, args);
  };
  // is_lora_supported of vLLM 0.33's registry, and the sources of the releases before.
  CHECK_THAT(refusal("FalconForCausalLM", {0, 33, 0}),
             Catch::StartsWith("LoRA is not supported for FalconForCausalLM. Supported models "
                               "implement the `SupportsLoRA` interface. Leave --enable-lora out."));
  CHECK_THAT(refusal("FalconForCausalLM", {0, 32, 0}),
             Catch::StartsWith("FalconForCausalLM does not support LoRA yet."));
  CHECK_THAT(refusal("LlavaForConditionalGeneration", {0, 13, 0}),
             Catch::Contains("or use vLLM 0.14.0, the first release whose class has it"));
  for (const char* name : {"GPT2LMHeadModel", "KimiLinearForCausalLM", "Glm5NextForCausalLM",
                           "Step3TextForCausalLM", "MiniMaxM3SparseForCausalLM"}) {
    INFO(name);
    CHECK_THAT(refusal(name, {0, 33, 0}), Catch::Contains("`SupportsLoRA`"));
  }
  const auto refused = [&](const char* name, const VllmVersion& version) {
    return refusal(name, version).find("LoRA") != std::string::npos;
  };
  CHECK_FALSE(refused("LlamaForCausalLM", {0, 33, 0}));
  CHECK_FALSE(refused("PersimmonForCausalLM", {0, 26, 0}));  // transformers' class in its place
  CHECK(refused("PersimmonForCausalLM", {0, 25, 0}));
  CHECK(refused("OlmoeForCausalLM", {0, 11, 0}));
  CHECK_FALSE(refused("OlmoeForCausalLM", {0, 11, 1}));
}

TEST_CASE("adapters of a tied table and of fused experts are those of vLLM's classes") {
  // Qwen3-4B: 79.0 MiB a slot in a log of 64 slots of rank 16, with the rest of torch's segments.
  Json config = parse_json<Json>(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
      "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "head_dim": 128,
      "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936,
      "max_position_embeddings": 40960, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})");
  EngineArgs args;
  args.lora = true;
  args.lora_slots = 64;
  args.max_model_len = 8192;
  const auto slot = [&](VllmVersion version) {
    args.version = version;
    args.lora = true;
    const PlanResult with = plan_vllm({config, "config.json"}, args, &hardware::find_gpu("4090"));
    args.lora = false;
    const PlanResult without =
        plan_vllm({config, "config.json"}, args, &hardware::find_gpu("4090"));
    return gib(with.weights_bytes - without.weights_bytes) * 1024 / 64;
  };
  CHECK(slot({0, 26, 0}) == Approx(79.0).epsilon(0.005));
  CHECK(slot({0, 28, 0}) == Approx(74.1).epsilon(0.005));  // its tied head is a head of its own
  CHECK(slot({0, 15, 0}) == Approx(64.7).epsilon(0.005));  // layers alone
  config["vocab_size"] = 262144;
  args.version = {0, 26, 0};
  args.lora = true;
  CHECK_THROWS_WITH(plan_vllm({config, "config.json"}, args, &hardware::find_gpu("4090")),
                    Catch::Contains("vocab size must be <= 258048"));
}
