// Buffers beside weights, by the step: indices of the keys that indexers choose, and what drafts
// keep. Shapes are those that vLLM 0.33's classes make on the meta device, with FlashMLA's sparse
// backend in the place of the CPU's.
#include <catch2/catch.hpp>
#include <sstream>

#include "base/json.h"
#include "plan/configs.h"
#include "plan/pooled_configs.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

constexpr int64_t kTokens = 8192, kSequences = 256;

EngineArgs launch(VllmVersion version) {
  EngineArgs args = at(version);
  args.max_num_batched_tokens = kTokens;
  args.max_num_seqs = kSequences;
  args.max_model_len = 4096;
  return args;
}

int64_t choice(const Json& config, const EngineArgs& args) {
  return part_bytes(plan_of(config, args, "h200"), "top-k indices");
}

/// A config of tests/data/families/changed.jsonl.
Json changed(const std::string& name) {
  std::istringstream lines(
      read_text_file(PLIMSOLL_SOURCE_DIR "/tests/data/families/changed.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json row = parse_json<Json>(line);
    if (row["name"] == name && row.contains("config")) return row["config"];
  }
  FAIL(name);
  return {};
}

/// DeepSeek V3.2 with four layers and 16 experts.
Json deepseek_v32() {
  return parse_json<Json>(
      R"({"architectures":["DeepseekV32ForCausalLM"],"model_type":"deepseek_v32",
    "torch_dtype":"bfloat16","first_k_dense_replace":3,"hidden_size":7168,"index_head_dim":128,
    "index_n_heads":64,"index_topk":2048,"intermediate_size":18432,"kv_lora_rank":512,
    "max_position_embeddings":163840,"moe_intermediate_size":2048,"n_group":4,"n_routed_experts":16,
    "n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":128,"num_experts_per_tok":8,
    "num_hidden_layers":4,"num_key_value_heads":128,"num_nextn_predict_layers":1,"q_lora_rank":1536,
    "qk_nope_head_dim":128,"qk_rope_head_dim":64,"rms_norm_eps":1e-6,"routed_scaling_factor":2.5,
    "rope_theta":10000,"scoring_func":"sigmoid","tie_word_embeddings":false,"topk_group":4,
    "topk_method":"noaux_tc","v_head_dim":128,"vocab_size":129280})");
}

/// A small step: experts need less of the shared workspace than attention.
EngineArgs small_step(VllmVersion version, const char* cache, int64_t length) {
  EngineArgs args = launch(version);
  args.tensor_parallel = 8;
  args.max_num_batched_tokens = 512;
  args.max_num_seqs = 64;
  args.max_model_len = length;
  args.kv_cache_dtype = cache;
  return args;
}

}  // namespace

TEST_CASE("layers that share a choice have a copy of it, for a step of decodes or a whole one") {
  constexpr int64_t kOwn = kTokens * 2048 * 4;  // (8192, 2048) int32
  const EngineArgs args = launch({0, 33, 0});
  // Four of (257, 2048) and (257,).
  CHECK(choice(deepseek_v32(), args) == kOwn + 4 * (kSequences + 1) * 2049 * 4);
  // Six of (8193, 2048) and (8193,), whichever layers have an indexer.
  CHECK(choice(changed("HYV4ForCausalLM"), args) == kOwn + 6 * (kTokens + 1) * 2049 * 4);
  // 11 of (8193, 2176) and (8193,).
  CHECK(choice(glm_flash(), args) == kTokens * 2176 * 4 + 11 * (kTokens + 1) * 2177 * 4);
  CHECK(choice(deepseek_v32(), launch({0, 29, 0})) == kOwn);
}

TEST_CASE("layers that predict have a choice and a copy of their own, and widen the decodes") {
  EngineArgs args = launch({0, 33, 0});
  args.draft_method = "mtp";
  args.draft_tokens = 3;
  const int64_t rows = kSequences * (1 + 3) + 1;
  CHECK(choice(deepseek_v32(), args) == 2 * kTokens * 2048 * 4 + 5 * rows * 2049 * 4);
  Json config = qwen_flash();
  config["mtp_num_hidden_layers"] = 1;
  CHECK(choice(config, args) == kTokens * (2 + 1) * (2048 + 4) * 4);
}

TEST_CASE("choices of compressed entries and of blocks of keys") {
  EngineArgs args = launch({0, 33, 0});
  args.tensor_parallel = 8;
  CHECK(choice(deepseek_v4(), args) == kTokens * 1024 * 4);
  const Json blocks = changed("MiniMax-M3");  // four heads of an index, 16 blocks each
  args.tensor_parallel = 1;
  CHECK(choice(blocks, args) == kTokens * 4 * 16 * 4);
  args.tensor_parallel = 8;
  CHECK(choice(blocks, args) == kTokens * 16 * 4);
}

TEST_CASE("sparse prefill reserves queries and a gathered cache in the workspace of experts") {
  constexpr int64_t kLength = 163840, kStep = 512, kRow = 576, kLatent = 512;
  const auto workspace = [](VllmVersion version, const char* cache, int64_t length = 163840,
                            const char* card = "h200") {
    Json config = deepseek_v32();
    config["max_position_embeddings"] = 1 << 20;
    return part_bytes(plan_of(config, small_step(version, cache, length), card),
                      "attention workspace");
  };
  constexpr int64_t kExperts = kStep * 8 * (7168 + 7168) * 2;
  constexpr int64_t kGathered = 5 * kLength * kRow * 2;
  constexpr int64_t kQueries = kStep * 16 * kRow * 2;
  constexpr auto kPrefill = [](int64_t padded) {
    return kStep * (padded * kRow + padded * kLatent + 16 * kLatent) * 2;
  };
  const char* const packed = "fp8_ds_mla";
  CHECK(workspace({0, 12, 0}, packed) == 0);
  CHECK(workspace({0, 13, 0}, packed) == kGathered);
  CHECK(workspace({0, 17, 0}, packed) == kGathered - kExperts);
  CHECK(workspace({0, 18, 0}, packed) == kGathered + kQueries - kExperts);
  CHECK(workspace({0, 31, 0}, packed) == kGathered + kQueries + kPrefill(64) - kExperts);
  CHECK(workspace({0, 31, 0}, packed, kLength, "b200") ==
        kGathered + kQueries + kPrefill(128) - kExperts);
  CHECK(workspace({0, 33, 0}, packed, kLength, "b200") ==
        kGathered + kQueries + kPrefill(64) - kExperts);
  // Contexts of a million tokens: two of them, not five.
  CHECK(workspace({0, 33, 0}, packed, 1 << 20) ==
        2 * (1 << 20) * kRow * 2 + kQueries + kPrefill(64) - kExperts);
  // A cache in 16 bits is read where it is; the indexer's keys are gathered all the same.
  constexpr int64_t kKeys = 40 * kLength * (128 + 4);
  CHECK(workspace({0, 18, 0}, "auto") == kKeys - kExperts);
  CHECK(workspace({0, 33, 0}, "auto") == kKeys + (1 << 20) - kExperts);
  // Experts that need more than attention does leave nothing to add.
  EngineArgs args = small_step({0, 33, 0}, packed, 4096);
  args.max_num_batched_tokens = kTokens;
  CHECK(part_bytes(plan_of(deepseek_v32(), args, "h200"), "attention workspace") == 0);
}

TEST_CASE("queries of caches in 16 bits are padded from 0.29 on, where FlashMLA reads them") {
  // Without an indexer's keys of a long context: 4096 tokens.
  const auto workspace = [](VllmVersion version) {
    EngineArgs args = small_step(version, "auto", 4096);
    args.max_num_batched_tokens = 4096;
    Json config = deepseek_v32();
    config["num_experts_per_tok"] = 1;
    return part_bytes(plan_of(config, args, "b200"), "attention workspace");
  };
  constexpr int64_t kExperts = 4096 * (7168 + 7168) * 2;
  CHECK(workspace({0, 28, 0}) == 0);
  CHECK(workspace({0, 29, 0}) == 4096 * 128 * 576 * 2 - kExperts);
  CHECK(workspace({0, 32, 0}) == 4096 * 64 * 576 * 2 - kExperts);
}

TEST_CASE("compressed entries and their indexer's keys are gathered in the shared workspace") {
  const auto workspace = [](VllmVersion version, int64_t length, const char* card = "h200") {
    EngineArgs args = small_step(version, "fp8", length);
    args.max_num_batched_tokens = 64;
    Json config = deepseek_v4();
    config["max_position_embeddings"] = 1 << 20;
    return plan_of(config, args, card);
  };
  constexpr int64_t kExperts = 64 * 6 * (4096 + 4096) * 2;
  constexpr int64_t kMebi = 1 << 20;
  const char* const name = "attention workspace";
  CHECK(part_bytes(workspace({0, 20, 0}, 65536), name) ==
        40 * 65536 / 4 * (128 + 4) + kMebi - kExperts);
  constexpr int64_t kEntries = 4 * (kMebi / 4 + 128 + 64) * 512 * 2;
  CHECK(part_bytes(workspace({0, 33, 0}, kMebi), name) ==
        kEntries + 64 * (1152 + 1) * 4 - kExperts);
  // FlashInfer's kernels read the cache where it is.
  const PlanResult consumer = workspace({0, 33, 0}, kMebi, "rtx-pro-6000");
  CHECK(part_bytes(consumer, name) == 16 * kMebi / 4 * (128 + 4) + kMebi - kExperts);
  CHECK(part_bytes(consumer, "attention's own workspace") == 128 * kMebi);
}

TEST_CASE("the profile allocates expanded context and an indexer's logits") {
  constexpr int64_t kMebi = 1 << 20, kStep = 512;
  const auto peak = [](const Json& config, VllmVersion version) {
    EngineArgs args = small_step(version, "auto", 163840);
    args.max_num_seqs = 16;
    return part_bytes(plan_of(config, args, "h200"), "activation: attention");
  };
  constexpr int64_t kBeside = kStep * (2 * 7168 + 16 * (192 + 128)) * 2;
  constexpr int64_t kContext = 65536 * 16 * (128 + 128) * 2;
  CHECK(peak(deepseek_v32(), {0, 15, 0}) == 0);  // layers with an indexer were apart
  CHECK(peak(deepseek_v32(), {0, 16, 0}) == kContext + kBeside + 80 * kMebi);
  CHECK(peak(deepseek_v32(), {0, 19, 0}) == 512 * kMebi + kBeside + 80 * kMebi);
  CHECK(peak(deepseek_v32(), {0, 33, 0}) ==
        512 * kMebi + 2 * kStep * 2048 * 4 + kBeside + 48 * kMebi);
  Json dense = deepseek_v32();
  dense["architectures"] = {"DeepseekV3ForCausalLM"};
  dense["model_type"] = "deepseek_v3";
  CHECK(peak(dense, {0, 10, 2}) == 0);
  CHECK(peak(dense, {0, 11, 0}) == kContext + kBeside + 80 * kMebi);
}

TEST_CASE("embeddings of n-grams in the host's memory are looked up beforehand") {
  const auto looked_up = [](const Json& config, const EngineArgs& args) {
    return part_bytes(plan_of(config, args, "h200"), "n-grams looked up");
  };
  EngineArgs args = launch({0, 33, 0});
  CHECK(looked_up(qwen_flash(), args) == kTokens * 2560 * 2);
  for (const auto& [type, bytes] : {std::pair{"float8_e4m3fn", 1}, std::pair{"nvfp4", 2}}) {
    Json config = qwen_flash();
    config["ple_embedding_dtype"] = type;
    CHECK(looked_up(config, args) == kTokens * 2560 * bytes);
  }
  args.data_parallel = 2;
  args.tables.over_replicas = true;
  CHECK(looked_up(qwen_flash(), args) == 2 * kTokens * 2560 * 2);
  args.tables.offload = false;
  CHECK(looked_up(qwen_flash(), args) == 0);
}

TEST_CASE("drafts keep hidden states of a step, embeddings, and streams that they are handed") {
  Json config = qwen_flash();
  config["mtp_num_hidden_layers"] = 1;
  EngineArgs args = launch({0, 33, 0});
  args.draft_method = "mtp";
  args.draft_tokens = 1;
  const PlanResult streams = plan_of(config, args, "h200");
  CHECK(part_bytes(streams, "draft buffers") == kTokens * 4 * 2560 * 2);
  CHECK(part_bytes(streams, "hidden states for drafts") == kTokens * 4 * 2560 * 2);
  const PlanResult plain = plan_of(deepseek_v32(), args, "h200");
  CHECK(part_bytes(plain, "draft buffers") == kTokens * 7168 * 2);
  CHECK(part_bytes(plain, "hidden states for drafts") == 0);
  // The first model runner keeps embeddings too, which are gone from the budget since 0.27.
  args.second_runner = false;
  const PlanResult first = plan_of(deepseek_v32(), args, "h200");
  CHECK(part_bytes(first, "draft buffers") == 2 * kTokens * 7168 * 2);
  args.draft_method.clear();
  CHECK(part_bytes(plan_of(deepseek_v32(), args, "h200"), "draft buffers") == 0);
}

TEST_CASE("rings of tokens that are not yet pooled hold those that drafts may take back") {
  const auto ring = [](const Json& config, VllmVersion version, int64_t drafts) {
    EngineArgs args = launch(version);
    args.draft_method = "ngram";
    args.draft_tokens = drafts;
    args.lookup_max = 4;
    for (const KvKindCount& kind : plan_of(config, args, "h200").kv_kinds)
      if (kind.spec.kind == KvKind::ring) return kind.spec.block_size;
    return int64_t{0};
  };
  CHECK(ring(qwen_flash(), {0, 33, 0}, 4) == 8);
  EngineArgs args = launch({0, 33, 0});
  args.draft_method = "ngram";
  args.draft_tokens = 5;
  args.lookup_max = 4;
  CHECK_THAT(refusal_of(qwen_flash(), args, "h200"),
             Catch::Contains("ring capacity 12 must divide the attention block size 832"));
  CHECK(ring(glm_flash(), {0, 33, 0}, 4) == 8);
  CHECK(ring(glm_flash(), {0, 33, 0}, 5) == 16);  // a power of 2 of pools
  CHECK(ring(glm_flash(), {0, 30, 0}, 5) == 4);
}

TEST_CASE("shared experts are whole where ranks divide the tokens of a mixture") {
  const auto mlps = [](const Json& config, VllmVersion version, int64_t replicas, bool experts) {
    EngineArgs args = launch(version);
    args.tensor_parallel = 2;
    args.data_parallel = replicas;
    args.expert_parallel = experts;
    return part_bytes(plan_of(config, args, "h200"), "weights: mlp");
  };
  constexpr int64_t kHidden = 7168;
  constexpr int64_t kShared = 3 * kHidden * 2048 * 2, kDense = 3 * (3 * kHidden * 18432) * 2;
  const Json config = deepseek_v32();
  CHECK(mlps(config, {0, 33, 0}, 1, true) == (kShared + kDense) / 2);
  CHECK(mlps(config, {0, 33, 0}, 2, false) == (kShared + kDense) / 2);
  CHECK(mlps(config, {0, 33, 0}, 2, true) == kShared + kDense);  // dense layers too, from 0.29 on
  CHECK(mlps(config, {0, 28, 0}, 2, true) == kShared + kDense / 2);
  Json plain = config;
  plain["architectures"] = {"DeepseekV3ForCausalLM"};
  plain["model_type"] = "deepseek_v3";
  CHECK(mlps(plain, {0, 33, 0}, 2, true) == kShared + kDense / 2);
  CHECK(mlps(plain, {0, 10, 2}, 2, true) == (kShared + kDense) / 2);
}

TEST_CASE("block tables and page indices go by requests times their length") {
  constexpr int64_t kTable = 1024 * (131072 / 16) * 4;
  const auto part = [](VllmVersion version, const char* name, std::optional<bool> second = {},
                       const char* backend = "", int64_t sequences = 1024) {
    EngineArgs args = launch(version);
    args.max_num_seqs = sequences;
    args.max_model_len = 131072;
    args.second_runner = second;
    args.attention_backend = backend;
    for (const PlanPart& one : plan_of(llama_8b(), args, "h200").parts)
      if (one.name == name) return one;
    return PlanPart{};
  };
  const PlanPart second = part({0, 33, 0}, "block tables");
  CHECK(second.bytes == 2 * kTable);
  CHECK_FALSE(second.inside_budget);  // made with the KV cache
  const PlanPart first = part({0, 28, 0}, "block tables", false);
  CHECK(first.bytes == kTable);
  CHECK(first.inside_budget);
  CHECK_FALSE(part({0, 26, 0}, "block tables", false).inside_budget);
  CHECK(part({0, 33, 0}, "block tables", {}, "", 64).bytes == 0);  // below 8 MiB
  CHECK(part({0, 33, 0}, "FlashInfer's page indices").bytes == 0);
  const PlanPart pages = part({0, 33, 0}, "FlashInfer's page indices", {}, "FLASHINFER");
  CHECK(pages.bytes == kTable);
  CHECK_FALSE(pages.inside_budget);
  CHECK(part({0, 10, 0}, "FlashInfer's page indices", {}, "FLASHINFER").bytes == 0);
  CHECK(part({0, 10, 1}, "FlashInfer's page indices", {}, "FLASHINFER").bytes == kTable);
}

TEST_CASE("latent attention keeps gathered context, its indexer a block table for each token") {
  const auto kept = [](const Json& config, VllmVersion version, const char* cache = "auto") {
    EngineArgs args = launch(version);
    args.tensor_parallel = 8;
    args.max_model_len = 163840;
    args.kv_cache_dtype = cache;
    return part_bytes(plan_of(config, args, "h200"), "buffers of latent attention");
  };
  Json dense = deepseek_v32();
  dense["architectures"] = {"DeepseekV3ForCausalLM"};
  dense["model_type"] = "deepseek_v3";
  CHECK(kept(dense, {0, 33, 0}) == 65536 * 576 * 2);
  constexpr int64_t kIndexTable = kTokens * (163840 / 64) * 4;
  CHECK(kept(deepseek_v32(), {0, 16, 0}) == 0);
  CHECK(kept(deepseek_v32(), {0, 17, 0}) == kIndexTable);
  // From 0.26 on sparse attention gathers context too, for short prefills.
  CHECK(kept(deepseek_v32(), {0, 33, 0}) == kIndexTable + 65536 * 576 * 2);
  CHECK(kept(deepseek_v32(), {0, 25, 0}) == kIndexTable);
  // On Blackwell these mask what is not chosen, where the cache is not in 8 bits.
  const auto on_blackwell = [](VllmVersion version, const char* cache) {
    EngineArgs args = launch(version);
    args.tensor_parallel = 8;
    args.max_model_len = 163840;
    args.kv_cache_dtype = cache;
    return part_bytes(plan_of(deepseek_v32(), args, "b200"), "buffers of latent attention");
  };
  constexpr int64_t kGathered = 65536 * 576 * 2, kMasks = 128 << 20;
  CHECK(on_blackwell({0, 26, 0}, "auto") == kIndexTable + kGathered);
  CHECK(on_blackwell({0, 27, 0}, "auto") == kIndexTable + kGathered + kMasks);
  CHECK(on_blackwell({0, 27, 0}, "fp8") == kIndexTable + kGathered);
  // FlashInfer's sparse kernels on Hopper: a workspace, and indices of a step.
  CHECK(kept(deepseek_v32(), {0, 30, 0}, "fp8_e4m3") ==
        kIndexTable + (128 << 20) + kTokens * 2048 * 4);
}

TEST_CASE(
    "Triton's kernels of latent attention reserve the parts of decodes, from 0.33 in budget") {
  constexpr int64_t kHeads = 128 / 8, kParts = 2 * 108, kColumns = 512 + 1;
  const auto part = [](VllmVersion version, const char* card, int64_t length = 163840,
                       int64_t drafts = 0) {
    Json config = deepseek_v32();
    config["architectures"] = {"DeepseekV3ForCausalLM"};
    config["model_type"] = "deepseek_v3";
    config["first_k_dense_replace"] = config["num_hidden_layers"];  // no experts in the workspace
    EngineArgs args = launch(version);
    args.tensor_parallel = 8;
    args.max_num_seqs = 64;
    args.max_model_len = length;
    if (drafts > 0) args.draft_method = "ngram";
    args.draft_tokens = drafts;
    args.lookup_max = 4;
    for (const PlanPart& one : plan_of(config, args, card).parts)
      if (one.name == "attention workspace") return one;
    return PlanPart{};
  };
  const char* const card = "a100-80";
  CHECK(part({0, 24, 0}, card).bytes == 0);
  // 320 parts of 512 tokens, a power of 2 of them, but two for each of 108 processors at most.
  CHECK(part({0, 25, 0}, card).bytes == 64 * kHeads * kParts * kColumns * 4);
  CHECK(!part({0, 32, 0}, card).inside_budget);
  CHECK(part({0, 33, 0}, card).bytes == 64 * kHeads * kParts * kColumns * 4);
  CHECK(part({0, 33, 0}, card).inside_budget);
  CHECK(part({0, 33, 0}, card, 20000).bytes == 64 * kHeads * 64 * kColumns * 4);  // 39 parts
  CHECK(part({0, 33, 0}, card, 20000, 3).bytes == 4 * 64 * kHeads * 64 * kColumns * 4);
  CHECK(part({0, 33, 0}, "h200").bytes == 0);  // other kernels
}

TEST_CASE("drafts that are drawn at random keep their logits, n-grams the tokens of requests") {
  const auto plan = [](VllmVersion version, const char* method, bool random) {
    EngineArgs args = launch(version);
    args.draft_method = method;
    args.draft_tokens = 3;
    args.lookup_max = 4;
    args.draft_logits = random;
    return plan_of(llama_8b(), args, "h200");
  };
  const char* const logits = "draft logits";
  CHECK(part_bytes(plan({0, 33, 0}, "eagle3", true), logits) == kSequences * 3 * 128256 * 2);
  CHECK(part_bytes(plan({0, 27, 0}, "eagle3", true), logits) == kSequences * 3 * 128256 * 4);
  CHECK(part_bytes(plan({0, 33, 0}, "eagle3", false), logits) == 0);
  constexpr int64_t kLength = 4096;
  const char* const tokens = "tokens of requests";
  EngineArgs many = launch({0, 33, 0});
  many.draft_method = "ngram";
  many.draft_tokens = 3;
  many.lookup_max = 4;
  many.max_num_seqs = 1024;
  CHECK(part_bytes(plan_of(llama_8b(), many, "h200"), tokens) == 1024 * kLength * 4);
  many.version = {0, 31, 0};  // n-grams run in the first runner
  CHECK(part_bytes(plan_of(llama_8b(), many, "h200"), tokens) == 0);
}
