// Memory of a rank of a mixture of experts under the flags of a launch, as sums by hand.
#include <catch2/catch.hpp>

#include "plan/configs.h"
#include "vllm_config.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

constexpr int64_t kHidden = 1024, kExpert = 512, kExperts = 60, kLayers = 4;
constexpr int64_t kTable = int64_t{65536} * kHidden * 2;  // bytes; the head's are as many

Json mixture() {
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"model_type", "qwen3_moe"},
          {"torch_dtype", "bfloat16"},
          {"hidden_size", kHidden},
          {"intermediate_size", 4096},
          {"moe_intermediate_size", kExpert},
          {"num_experts", kExperts},
          {"num_experts_per_tok", 4},
          {"num_hidden_layers", kLayers},
          {"num_attention_heads", 16},
          {"num_key_value_heads", 8},
          {"head_dim", 64},
          {"vocab_size", 65536},
          {"max_position_embeddings", 4096},
          {"decoder_sparse_step", 1},
          {"mlp_only_layers", Json::array()},
          {"tie_word_embeddings", false}};
}

/// Bytes of the experts of `layers` layers, each with its router, which every rank holds.
constexpr int64_t experts(int64_t layers, int64_t count, int64_t intermediate) {
  return layers * (count * 3 * kHidden * intermediate + kExperts * kHidden) * 2;
}

/// A rank's factors of a layer's q, k, v, o and router: inputs + outputs of each.
constexpr int64_t attention_factors(int64_t ranks) {
  return (1024 + 1024 / ranks) + 2 * (1024 + 512 / ranks) + (1024 / ranks + 1024) +
         (1024 + kExperts);
}

/// Factors of the adapters of its experts' gate, up and down.
constexpr int64_t expert_factors(int64_t count, int64_t intermediate) {
  return count * 3 * (kHidden + intermediate);
}

/// Factors of the adapters of the token table, and as many of the output's; whole on every rank.
constexpr int64_t kTableFactors = 65536 + kHidden;

}  // namespace

TEST_CASE("a rank of a mixture holds what its launch's sums say") {
  struct Row {
    const char* name;
    void (*ask)(EngineArgs&);
    int64_t experts, adapters, kv_per_token;
  };
  const Row rows[] = {
      {"one rank", [](EngineArgs&) {}, experts(4, 60, 512), 0, 4 * 2 * 8 * 64 * 2},
      {"-tp 8: experts are cut", [](EngineArgs& a) { a.tensor_parallel = 8; },
       experts(4, 60, 512 / 8), 0, 4 * 2 * 1 * 64 * 2},
      {"-tp 8, whole experts: 60 on 8 ranks are 8 on the fullest",
       [](EngineArgs& a) {
         a.tensor_parallel = 8;
         a.expert_parallel = true;
       },
       experts(4, 8, 512), 0, 4 * 2 * 1 * 64 * 2},
      {"-tp 4, whole experts: 60 on 4 ranks are 15",
       [](EngineArgs& a) {
         a.tensor_parallel = 4;
         a.expert_parallel = true;
       },
       experts(4, 15, 512), 0, 4 * 2 * 2 * 64 * 2},
      {"-tp 2 -dp 4: experts are cut over the ranks of all copies",
       [](EngineArgs& a) {
         a.tensor_parallel = 2;
         a.data_parallel = 4;
       },
       experts(4, 60, 512 / 8), 0, 4 * 2 * 4 * 64 * 2},
      {"-dp 8, whole experts: as on eight ranks of one copy",
       [](EngineArgs& a) {
         a.data_parallel = 8;
         a.expert_parallel = true;
       },
       experts(4, 8, 512), 0, 4 * 2 * 8 * 64 * 2},
      {"LoRA",
       [](EngineArgs& a) {
         a.lora = true;
         a.lora_rank = 16;
       },
       experts(4, 60, 512),
       (4 * (attention_factors(1) + expert_factors(60, 512)) + 2 * kTableFactors) * 16 * 2,
       4 * 2 * 8 * 64 * 2},
      {"-tp 2, LoRA, two slots of rank 32",
       [](EngineArgs& a) {
         a.tensor_parallel = 2;
         a.lora = true;
         a.lora_slots = 2;
         a.lora_rank = 32;
       },
       experts(4, 60, 256),
       (4 * (attention_factors(2) + expert_factors(60, 256)) + 2 * kTableFactors) * 32 * 2 * 2,
       4 * 2 * 4 * 64 * 2},
      {"-tp 8, whole experts, LoRA",
       [](EngineArgs& a) {
         a.tensor_parallel = 8;
         a.expert_parallel = true;
         a.lora = true;
         a.lora_rank = 16;
       },
       experts(4, 8, 512),
       (4 * (attention_factors(8) + expert_factors(8, 512)) + 2 * kTableFactors) * 16 * 2,
       4 * 2 * 1 * 64 * 2},
      {"-pp 2: the layers of a stage", [](EngineArgs& a) { a.pipeline_parallel = 2; },
       experts(2, 60, 512), 0, 2 * 2 * 8 * 64 * 2},
      {"-tp 8 -pp 2, whole experts",
       [](EngineArgs& a) {
         a.tensor_parallel = 8;
         a.pipeline_parallel = 2;
         a.expert_parallel = true;
       },
       experts(2, 8, 512), 0, 2 * 2 * 1 * 64 * 2},
      {"-pp 2, LoRA",
       [](EngineArgs& a) {
         a.pipeline_parallel = 2;
         a.lora = true;
         a.lora_rank = 16;
       },
       experts(2, 60, 512),
       (2 * (attention_factors(1) + expert_factors(60, 512)) + kTableFactors) * 16 * 2,
       2 * 2 * 8 * 64 * 2},
      {"an fp8 cache", [](EngineArgs& a) { a.kv_cache_dtype = "fp8"; }, experts(4, 60, 512), 0,
       4 * 2 * 8 * 64},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    EngineArgs args;
    row.ask(args);
    const PlanResult plan = plan_of(mixture(), args);
    CHECK(part_bytes(plan, "weights: experts") == row.experts);
    CHECK(part_bytes(plan, "weights: LoRA adapters") == row.adapters);
    CHECK(plan.kv_bytes_per_token == row.kv_per_token);
    int64_t sum = 0;
    for (const PlanPart& part : plan.parts) sum += part.inside_budget ? part.bytes : 0;
    CHECK(sum == plan.budget_bytes);
  }
}

TEST_CASE("of a mixture as much is kept on the host as is asked, and no more than its layers") {
  for (const int64_t ranks : {1, 2}) {
    for (const bool whole : {false, true}) {
      INFO(ranks << (whole ? ", whole experts" : ""));
      EngineArgs args;
      args.tensor_parallel = ranks;
      args.expert_parallel = whole;
      const PlanResult without = plan_of(mixture(), args);
      const int64_t layers = without.parameter_bytes - 2 * kTable / ranks;
      for (const int64_t asked : {layers / 2, layers, layers + 1, 1000 * kGib}) {
        args.cpu_offload = asked;
        const PlanResult plan = plan_of(mixture(), args);
        CHECK(part_bytes(plan, "weights: offloaded to the host") == -std::min(asked, layers));
        CHECK(plan.kv_cache_bytes == without.kv_cache_bytes + std::min(asked, layers));
      }
    }
  }
}

TEST_CASE("room for experts stays from 0.14 on, and before is let go in each layer") {
  vllm::EngineArgs args;
  args.max_num_batched_tokens = 4096;
  args.max_num_seqs = 256;
  // Four experts a token; each has the model's width for what goes in and out, and once more for
  // the product of its gate, which is narrower.
  constexpr int64_t kRoom = 4096 * 4 * 2 * (kHidden + kHidden);
  args.version = {0, 14, 0};
  const PlanResult stays = plan_of(mixture(), args, "h100");
  CHECK(part_bytes(stays, "activation: expert workspace") == kRoom);
  args.version = {0, 13, 0};
  const PlanResult goes = plan_of(mixture(), args, "h100");
  CHECK(part_bytes(goes, "activation: expert workspace") == 0);
  CHECK(goes.activation_peak_bytes == part_bytes(goes, "activation: sampler"));
  CHECK(goes.activation_peak_bytes == stays.activation_peak_bytes - kRoom);
  // With a few sequences the forward pass is the peak, and the room is taken in it.
  args.max_num_seqs = 1;
  const PlanResult few = plan_of(mixture(), args, "h100");
  CHECK(part_bytes(few, "activation: forward pass") > kRoom);
  args.version = {0, 14, 0};
  CHECK(plan_of(mixture(), args, "h100").activation_peak_bytes - few.activation_peak_bytes ==
        4096 * 4 * 2 * (kHidden - kExpert));
  args.max_num_batched_tokens = 40000;  // more than are computed at once
  CHECK(part_bytes(plan_of(mixture(), args, "h100"), "activation: expert workspace") == 4 * kRoom);
}

TEST_CASE("room for experts is cut as the experts are") {
  Json config = mixture();
  config["moe_intermediate_size"] = 2048;
  vllm::EngineArgs args;
  args.max_num_batched_tokens = 4096;
  args.max_num_seqs = 256;
  struct Row {
    int64_t tensor_parallel;
    bool expert_parallel;
    int64_t columns;  // gate and up or what comes out, and their product or what goes in
  };
  for (const Row& row : {Row{1, false, 2 * 2048 + 2048}, Row{2, false, 2 * 1024 + 1024},
                         Row{8, false, kHidden + kHidden}, Row{8, true, 2 * 2048 + 2048}}) {
    INFO(row.tensor_parallel << " " << row.expert_parallel);
    args.tensor_parallel = row.tensor_parallel;
    args.expert_parallel = row.expert_parallel;
    CHECK(part_bytes(plan_of(config, args, "h100"), "activation: expert workspace") ==
          4096 * 4 * 2 * row.columns);
  }
}

TEST_CASE("Blackwell's kernels pad slices of experts in nvfp4 without a gate to 128 rows") {
  Json config = test::vllm_config(
      PLIMSOLL_SOURCE_DIR
      "/tests/data/vllm/configs/nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json");
  config["quantization_config"] = {{"quant_method", "modelopt"},
                                   {"quant_algo", "NVFP4"},
                                   {"group_size", 16},
                                   {"ignore", {"lm_head"}}};
  const auto padded = [&](const char* gpu, int ranks, bool whole = false) {
    vllm::EngineArgs args = at({0, 19, 0});
    args.tensor_parallel = ranks;
    args.expert_parallel = whole;
    return plan_of(config, args, gpu).after_loading_bytes;
  };
  // 23 layers of 128 experts; a row more up and a column more down, of 2688 in 4 bits with a byte
  // for 16. Logged by 0.13 on two cards: 9.83 GiB of weights, of which 9.02 are loaded.
  constexpr int64_t kRow = int64_t{23} * 128 * 2 * (2688 / 2 + 2688 / 16);
  CHECK(padded("5080", 2) == kRow * (1024 - 1856 / 2));
  CHECK(padded("b200", 1) == kRow * (1920 - 1856));
  CHECK(padded("b200", 4) == kRow * (512 - 1856 / 4));
  CHECK(padded("b200", 4, true) == kRow / 4 * (1920 - 1856));
  CHECK(padded("h100", 2) == 0);
}
