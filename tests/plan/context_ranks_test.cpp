// --decode-context-parallel-size: what ranks that divide a request's tokens keep of it, by hand
// arithmetic, and the launches that vLLM refuses.
#include <catch2/catch.hpp>

#include "plan/configs.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using Catch::Contains;

namespace {

/// Four layers of latent attention, 576 elements a token.
Json latent_model() {
  return parse_json<Json>(R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3",
    "torch_dtype":"bfloat16","hidden_size":1024,"intermediate_size":2048,"moe_intermediate_size":256,
    "num_hidden_layers":4,"num_attention_heads":16,"num_key_value_heads":16,"n_routed_experts":8,
    "n_shared_experts":1,"num_experts_per_tok":2,"first_k_dense_replace":1,"kv_lora_rank":512,
    "q_lora_rank":768,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"n_group":1,
    "topk_group":1,"vocab_size":32000,"max_position_embeddings":65536,"rope_theta":10000})");
}

EngineArgs divided(int64_t tensor, int64_t context, VllmVersion version = {0, 33, 0}) {
  EngineArgs args = at(version);
  args.tensor_parallel = tensor;
  args.context_ranks = context;
  return args;
}

}  // namespace

TEST_CASE("a block of a rank stands for its tokens times the ranks") {
  constexpr int64_t kBlock = 4 * 576 * 2 * 64;  // bytes of 64 tokens
  constexpr int64_t kBlocks = kGib / kBlock;
  for (const VllmVersion version : {VllmVersion{0, 11, 0}, VllmVersion{0, 33, 0}}) {
    for (const int64_t ranks : {1, 2, 8}) {
      INFO(version_text(version) << " " << ranks);
      EngineArgs args = divided(8, ranks, version);
      args.available_kv = kGib;
      args.block_size = 64;
      const PlanResult plan = plan_of(latent_model(), args);
      CHECK(plan.block_size == 64);
      CHECK(plan.num_gpu_blocks == kBlocks);
      CHECK(plan.kv_tokens == kBlocks * 64 * ranks);
      CHECK(plan.max_concurrency == Approx(static_cast<double>(kBlocks * 64 * ranks) / 65536));
      CHECK(plan.kv_bytes_per_token == kBlock / 64 / ranks);
    }
  }
}

TEST_CASE("ranks that divide the context gather each other's rows into a longer workspace") {
  const auto rows_of = [](int64_t ranks) {
    return part_bytes(plan_of(latent_model(), divided(8, ranks)), "buffers of latent attention");
  };
  const int64_t alone = rows_of(1);
  REQUIRE(alone > 0);
  CHECK(rows_of(8) == alone + alone / 8);
}

TEST_CASE("vLLM divides contexts among ranks that would hold the same heads") {
  struct Row {
    Json config;
    EngineArgs args;
    const char* refusal;
  };
  Json six_for_one = llama_8b();  // heads of queries for a head of keys
  six_for_one["num_attention_heads"] = 48;
  six_for_one["head_dim"] = 128;
  six_for_one["intermediate_size"] = 48 * 256;
  Json states = hybrid();
  states["n_groups"] = 16;
  EngineArgs keeping_prefixes = divided(16, 2, {0, 19, 1});
  keeping_prefixes.prefix_caching = true;
  const Row rows[] = {
      {llama_8b(), divided(16, 2), ""},
      {llama_8b(), divided(16, 2, {0, 11, 1}), ""},
      {llama_8b(), divided(16, 2, {0, 11, 0}), "softmax lse"},
      {llama_8b(), divided(16, 3), "tp_size=16 must be divisible by dcp_size=3"},
      {llama_8b(), divided(8, 2),
       "(8) to be greater than the model's total number of KV heads (8)"},
      {llama_8b(), divided(16, 4), "(4) exceeds the maximum supported value (2)"},
      {six_for_one, divided(48, 3), ""},
      {six_for_one, divided(48, 4), "query heads per KV head (6) must be divisible by"},
      {latent_model(), divided(16, 16), ""},
      {latent_model(), divided(4, 4, {0, 10, 2}), ""},
      {gemma2(), divided(16, 2), "DCP not support sliding window"},
      {states, divided(16, 2, {0, 19, 1}), ""},
      {states, keeping_prefixes, "DCP not support hybrid attn now"},
      {states, divided(16, 2, {0, 25, 1}), "do not support context parallelism"},
      {states, divided(16, 2, {0, 26, 0}), ""},
  };
  for (const Row& row : rows) {
    INFO(row.args.tensor_parallel << " " << row.args.context_ranks << " "
                                  << version_text(row.args.version));
    const std::string refusal = refusal_of(row.config, row.args);
    if (*row.refusal == '\0') {
      CHECK(refusal == "");
    } else {
      CHECK_THAT(refusal, Contains(row.refusal));
      CHECK_THAT(refusal, Contains("--decode-context-parallel-size"));
    }
  }
}
