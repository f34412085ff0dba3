// Models whose indexers pool keys: caches of unequal pages, rings, tables of n-grams. Weights and
// caches by vLLM's classes are rows of tests/data/families.
#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/configs.h"
#include "plan/pooled_configs.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

/// Rows of Qwen's table: 16 heads with the primes from 20000 on, padded to 128.
constexpr int64_t kPrimes[] = {20011, 20021, 20023, 20029, 20047, 20051, 20063, 20071,
                               20089, 20101, 20107, 20113, 20117, 20123, 20129, 20143};
int64_t table_bytes() {
  int64_t rows = 0;
  for (const int64_t prime : kPrimes) rows += prime;
  return (rows + 127) / 128 * 128 * (2560 / 16) * 2;
}

int64_t host_table(const PlanResult& result) {
  for (const PlanPart& part : result.host) {
    if (part.name == "embeddings of n-grams") return part.bytes;
  }
  return 0;
}

constexpr const char* kIndexKeys[] = {"indexer_n_heads", "indexer_kv_heads", "indexer_head_dim",
                                      "indexer_budget", "indexer_compress_ratio"};

/// The key with which a config is refused that has `value` in its place; empty: none is.
std::string refused_key(Json config, const char* key, const Json& value) {
  config[key] = value;
  try {
    plan_of(config, at({0, 33, 0}), "h200");
  } catch (const Error& error) {
    const std::string said = error.what();
    const size_t from = said.find('"') + 1;
    return said.substr(from, said.find('"', from) - from);
  }
  return "";
}

}  // namespace

TEST_CASE("values that transformers' configs or vLLM's classes refuse are refused by their key") {
  // validate_architecture of transformers 5.20, and errors of vLLM 0.33's classes.
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{
           {"hc_count", 1},
           {"indexer_kv_heads", 2},
           {"indexer_budget", 2046},
           {"indexer_head_dim", 32},  // 64 dimensions are rotated
           {"ple_layer_ids", {4}},    // a layer of attention
           {"layer_types", Json::array_t(8, "sliding_attention")},
           {"output_gate_type", "gelu"},
           {"hidden_act", "gelu"}}) {
    CHECK(refused_key(qwen_flash(), key, value) == key);
  }
  for (const char* key : kIndexKeys) CHECK(refused_key(qwen_flash(), key, nullptr) == key);
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"num_key_value_heads", 32},
                                                 {"index_topk", 2046},
                                                 {"qk_rope_head_dim", 64},
                                                 {"index_kpool_always_select_tail", false},
                                                 {"hidden_act", "gelu"}}) {
    CHECK(refused_key(glm_flash(), key, value) == key);
  }
  CHECK(refused_key(qwen_flash(), "output_gate_type", "sigmoid").empty());
  CHECK(refused_key(qwen_flash(), "hc_count", 2).empty());
  Json types = Json::array_t(8, "linear_attention");
  types[3] = types[7] = "indexed_attention";
  CHECK(refused_key(qwen_flash(), "layer_types", types).empty());
  CHECK(refused_key(glm_flash(), "index_kpool_always_select_tail", true).empty());
}

TEST_CASE("GLM-5.3-Flash's cache is that of a logged launch") {
  // Eight H200, 81.79 GiB of cache: "GPU KV cache size: 7,228,559 tokens", 55.15 requests.
  EngineArgs args = at({0, 30, 0});
  args.tensor_parallel = 8;
  args.max_model_len = 131072;
  args.kv_cache_memory = int64_t{8179} * kGib / 100;
  const PlanResult plan = plan_of(glm_flash(), args, "h200");
  CHECK(plan.block_size == 640);  // a state of 530 tokens' latents
  CHECK(plan.group_sizes == std::vector<int64_t>{9, 9, 8, 8, 22, 11});
  CHECK(plan.num_gpu_blocks == 11801);
  CHECK(plan.max_concurrency == Approx(55.15).epsilon(0.0005));
  CHECK(static_cast<double>(plan.kv_tokens) == Approx(7228559).epsilon(0.0005));
  // FlashKDA exports a state before the end of a prefill: a block more for each group of states.
  // From 0.32 on a block is a whole number of latents of 1,024 bytes and of the index's pages of
  // 4,224: 7,468,032 bytes for 7,441,280.
  args.version = {0, 32, 0};
  const PlanResult exports = plan_of(glm_flash(), args, "h200");
  CHECK(exports.num_gpu_blocks == args.kv_cache_memory / 7468032);
  CHECK(exports.max_concurrency ==
        Approx(static_cast<double>(exports.num_gpu_blocks) / (205 + 4 * 3 + 1)));
}

TEST_CASE("blocks of latents without positions, by card and type of cache") {
  struct Row {
    const char* card;
    const char* type;
    int64_t block, latent;  // tokens; bytes of a token
  };
  for (const auto& [card, type, block, latent] :
       {Row{"h200", "auto", 640, 1024}, Row{"h200", "fp8", 1152, 512},
        Row{"h200", "fp8_e4m3", 1152, 512}, Row{"h200", "fp8_ds_mla", 1152, 656},
        Row{"b200", "auto", 1152, 512}, Row{"rtx-pro-6000", "auto", 1280, 656}}) {
    INFO(card << " " << type);
    EngineArgs args = at({0, 33, 0});
    args.tensor_parallel = 8;
    args.kv_cache_dtype = type;
    args.kv_cache_memory = 40 * kGib;
    const PlanResult plan = plan_of(glm_flash(), args, card);
    CHECK(plan.block_size == block);
    const auto latents = std::ranges::find_if(plan.kv_kinds, [](const KvKindCount& kind) {
      return kind.spec.kind == KvKind::latent && kind.spec.kernel.empty();
    });
    REQUIRE(latents != plan.kv_kinds.end());
    CHECK(latents->spec.page == Amount{block} * latent);
  }
  Json config = glm_flash();  // blocks are a multiple of 32 pooled keys
  config["index_kpool"] = 16;
  EngineArgs args = at({0, 33, 0});
  args.tensor_parallel = 8;
  CHECK(plan_of(config, args, "h200").block_size == 1024);
}

TEST_CASE("what GLM-5.3-Flash's class looks up is asked for") {
  for (const char* key :
       {"indexer_rope_interleave", "mhc", "mla_use_nope", "scoring_func", "topk_method"}) {
    Json config = glm_flash();
    config.erase(key);
    CHECK_THROWS_WITH(plan_of(config), Catch::Contains(key) && Catch::Contains("looks it up"));
  }
}

TEST_CASE("attention and mixers of GLM-5.3-Flash are in no scheme") {
  Json config = glm_flash();
  EngineArgs args = at({0, 33, 0});
  args.tensor_parallel = 8;
  const PlanResult plain = plan_of(config, args, "h200");
  config["quantization_config"] = {
      {"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
  const PlanResult quantized = plan_of(config, args, "h200");
  CHECK(part_bytes(quantized, "weights: attention") == part_bytes(plain, "weights: attention"));
  CHECK(part_bytes(quantized, "weights: experts") < part_bytes(plain, "weights: experts") * 6 / 10);
}

TEST_CASE("layers that predict, as vLLM 0.33's classes hold them") {
  const auto draft = [](Json config, int64_t ranks) {
    config["num_nextn_predict_layers"] = config["mtp_num_hidden_layers"] = 1;
    EngineArgs args = at({0, 33, 0});
    args.tensor_parallel = ranks;
    args.draft_method = "mtp";
    args.draft_tokens = 1;
    return part_bytes(plan_of(config, args, "h200"), "weights: draft model");
  };
  CHECK(draft(glm_flash(), 1) == 14865186944);  // without streams
  CHECK(draft(glm_flash(), 2) == 7483211904);
  CHECK(draft(qwen_flash(), 1) == 336375296);  // with a mixer of their own behind them
  CHECK(draft(qwen_flash(), 2) == 189902336);
}

TEST_CASE("a table of n-grams lies in the host's memory, unless the launch says otherwise") {
  EngineArgs args = at({0, 33, 0});
  const PlanResult usual = plan_of(qwen_flash(), args, "h200");
  CHECK(host_table(usual) == table_bytes());
  args.tables.offload = false;
  const PlanResult loaded = plan_of(qwen_flash(), args, "h200");
  CHECK(host_table(loaded) == 0);
  CHECK(loaded.parameter_bytes == usual.parameter_bytes + table_bytes());
  CHECK(plan_of(qwen_flash(), at({0, 29, 0}), "h200").parameter_bytes == loaded.parameter_bytes);
  args.tables.offload = true;
  args.tensor_parallel = 2;
  CHECK(host_table(plan_of(qwen_flash(), args, "h200")) == table_bytes());
}

TEST_CASE("a table of n-grams is in fp8 where the checkpoint is, unless it is listed") {
  Json config = qwen_flash();
  config["quantization_config"] = {
      {"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
  CHECK(host_table(plan_of(config, at({0, 33, 0}), "h200")) == table_bytes() / 2);
  for (const char* name : {"ngram_embedding", "ngram_embedding.shard_0"}) {
    config["quantization_config"]["modules_to_not_convert"] = {
        std::string("model.layers.1.ple.ple_embedding.") + name};
    INFO(name);
    CHECK(host_table(plan_of(config, at({0, 33, 0}), "h200")) == table_bytes());
  }
}

TEST_CASE("an embedding of n-grams by its own key of the config") {
  for (const auto& [type, bytes] : {std::pair{"float8_e4m3fn", table_bytes() / 2},
                                    std::pair{"nvfp4", table_bytes() / 32 * 9}}) {
    Json config = qwen_flash();
    config["ple_embedding_dtype"] = type;
    INFO(type);
    CHECK(host_table(plan_of(config, at({0, 33, 0}), "h200")) == bytes);
  }
}

TEST_CASE("ModelOpt's NVFP4 leaves queries, keys and values beside an index whole") {
  Json config = qwen_flash();
  const PlanResult plain = plan_of(config, at({0, 33, 0}), "b200");
  config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  const PlanResult quantized = plan_of(config, at({0, 33, 0}), "b200");
  constexpr int64_t kAttends = 2, kOutputs = (24 * 2 + 2 + 2) * 256 + (4 + 1) * 128;
  CHECK(part_bytes(quantized, "weights: attention") > kAttends * kOutputs * 2560 * 2);
  CHECK(part_bytes(quantized, "weights: attention") < part_bytes(plain, "weights: attention"));
}

TEST_CASE("replicas divide, share or repeat embeddings of n-grams") {
  EngineArgs args = at({0, 33, 0});
  args.data_parallel = 2;
  CHECK(host_table(plan_of(qwen_flash(), args, "h200")) == table_bytes());
  args.tables.huge_pages = true;
  CHECK(host_table(plan_of(qwen_flash(), args, "h200")) == 2 * table_bytes());
  args.tables.huge_pages = false;
  args.tables.shared = false;
  CHECK(host_table(plan_of(qwen_flash(), args, "h200")) == 2 * table_bytes());
  args.version = {0, 30, 0};
  args.tables.shared = true;
  CHECK(host_table(plan_of(qwen_flash(), args, "h200")) == table_bytes());
  args.tables.shared.reset();
  CHECK(host_table(plan_of(qwen_flash(), args, "h200")) == 2 * table_bytes());
  args.tables.over_replicas = true;
  CHECK(host_table(plan_of(qwen_flash(), args, "h200")) == table_bytes());
  args.tables.offload = false;
  const PlanResult divided = plan_of(qwen_flash(), args, "h200");
  args.tables.over_replicas = false;
  CHECK(plan_of(qwen_flash(), args, "h200").parameter_bytes - divided.parameter_bytes ==
        table_bytes() / 2);
}

TEST_CASE("settings of embeddings of n-grams that vLLM refuses") {
  const auto refusal = [](const Json& config, const TableArgs& tables, int64_t replicas) {
    EngineArgs args = at({0, 33, 0});
    args.tables = tables;
    args.tables.given = true;
    args.data_parallel = replicas;
    return refusal_of(config, args, "h200");
  };
  CHECK_THAT(refusal(qwen_flash(), {.offload = false, .shared = true}, 2),
             Catch::StartsWith("dp_shared_memory requires cpu_offload=True."));
  for (const TableArgs& tables : {TableArgs{.offload = false, .huge_pages = true},
                                  TableArgs{.shared = true, .huge_pages = true}}) {
    CHECK_THAT(refusal(qwen_flash(), tables, 2),
               Catch::StartsWith("use_thp requires cpu_offload=True and dp_shared_memory=False."));
  }
  CHECK_THAT(refusal(qwen_flash(), {.shared = true}, 1),
             Catch::StartsWith("dp_shared_memory requires data_parallel_size > 1."));
  CHECK(refusal(qwen_flash(), {.shared = true}, 2).empty());
  CHECK(refusal(qwen_flash(), {.shared = false, .huge_pages = true}, 2).empty());
  const Json without = [] {
    Json config = qwen_flash();
    config["ple_layer_ids"] = Json::array();
    return config;
  }();
  for (const Json& config : {llama_8b(), without}) {
    CHECK_THAT(refusal(config, {}, 1),
               Catch::StartsWith("EngramConfig requires a model with supported Engram"));
  }
  EngineArgs older = at({0, 29, 0});  // which lacks the flag
  older.tables.given = true;
  CHECK(refusal_of(llama_8b(), older).empty());
}

TEST_CASE("n-grams and an index over pooled keys: refusals, and what the config leaves out") {
  EngineArgs args = at({0, 33, 0});
  args.pipeline_parallel = 2;
  CHECK_THAT(refusal_of(qwen_flash(), args, "h200"), Catch::Contains("pipeline_parallel_size=1"));
  EngineArgs types = at({0, 33, 0});
  types.kv_cache_dtype = "fp8_e5m2";
  CHECK_THAT(refusal_of(qwen_flash(), types, "h200"), Catch::Contains("BF16 or FP8-e4m3"));
  types.kv_cache_dtype = "fp8";
  CHECK(refusal_of(qwen_flash(), types, "h200").empty());
  types.version = {0, 30, 0};
  CHECK_THAT(refusal_of(qwen_flash(), types, "h200"), Catch::Contains("requires a BF16 main"));
  types = at({0, 33, 0});
  types.dtype = "float16";
  CHECK_THAT(refusal_of(qwen_flash(), types, "h200"), Catch::Contains("currently requires BF16"));
  Json plain = qwen_flash();
  plain["ple_layer_ids"] = Json::array();
  CHECK(refusal_of(plain, args, "h200").empty());
  Json config = qwen_flash();
  config["ple_embed_dim"] = 2561;
  CHECK_THROWS_WITH(plan_of(config), Catch::Contains("a multiple of the 16 heads"));
  config = qwen_flash();
  config["ple_layer_ids"] = {1, 2, 3, 4, 5};
  config["heads_per_ngram"] = 256;
  CHECK_THROWS_WITH(plan_of(config), Catch::Contains("at most 1024 heads"));
  config = qwen_flash();
  config.erase("eos_token_id");
  CHECK_THROWS_WITH(plan_of(config), Catch::Contains("eos_token_id"));
  config = qwen_flash();
  config["ple_layer_ids"] = {9};
  CHECK_THROWS_WITH(plan_of(config), Catch::Contains("layers from 1 to 8"));
  // Without an index it is Qwen3.5's attention.
  config = qwen_flash();
  for (const char* key : kIndexKeys) config[key] = nullptr;
  const PlanResult without = plan_of(config, at({0, 33, 0}), "h200");
  CHECK(part_bytes(without, "top-k indices") == 0);
  const auto is_ring = [](const KvKindCount& kind) { return kind.spec.kind == KvKind::ring; };
  CHECK(std::ranges::none_of(without.kv_kinds, is_ring));
  const PlanResult with = plan_of(qwen_flash(), at({0, 33, 0}), "h200");
  CHECK(std::ranges::count_if(with.kv_kinds, is_ring) == 1);
  CHECK(part_bytes(with, "top-k indices") == with.max_num_batched_tokens * 2 * (2048 + 4) * 4);
}
