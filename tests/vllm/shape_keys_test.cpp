// Keys of configs that are seldom there, and what a model's shape makes of them.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "vllm/shapes/latent_backend.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm::shape_keys {
namespace {

constexpr int64_t kModelWidth = 64;

Json decoder(const char* architecture, const Json& changes = Json::object()) {
  Json config = {{"architectures", {architecture}}, {"torch_dtype", "bfloat16"},
                 {"hidden_size", kModelWidth},      {"intermediate_size", 96},
                 {"num_hidden_layers", 2},          {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},        {"vocab_size", 128},
                 {"max_position_embeddings", 512}};
  config.merge_patch(changes);
  return config;
}

ModelShape shape_of(const Json& config, RankWeights& weights, const ShapeOptions& options = {}) {
  return build_shape(ConfigView(config, "config.json"), options, weights);
}

/// Bytes of a part of the weights.
int64_t bytes_of(Part part, const Json& config, const ShapeOptions& options = {}) {
  const Quantization plain;
  RankWeights weights(options.tensor_parallel, 2, plain);
  shape_of(config, weights, options);
  return weights.part_bytes(part).value();
}

std::string uncounted(const Json& changes) {
  const Quantization plain;
  RankWeights weights(1, 2, plain);
  return shape_of(decoder("WombatForCausalLM", changes), weights).uncounted;
}

}  // namespace

TEST_CASE("heads of reward models and classifiers weigh what their classes have") {
  constexpr int64_t kFloat = 4, kHalf = 2;
  struct Row {
    const char* architecture;
    Json changes;
    int64_t bytes;
  };
  const Json names = {{"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}};
  const int64_t two =
      ((kModelWidth + 1) * kModelWidth + kModelWidth) * kFloat;  // but for the labels' biases
  const Row rows[] = {
      {"InternLM2ForRewardModel", Json::object(), kModelWidth * kFloat},
      {"Qwen2ForRewardModel", Json::object(), two + kFloat},
      {"Qwen2ForProcessRewardModel", Json::object(), two + kModelWidth * kFloat + 2 * kFloat},
      {"GPTNeoXRewardModel", Json::object(), kModelWidth * kHalf},
      {"GPTNeoXRewardModel", {{"num_labels", 3}}, 3 * kModelWidth * kHalf},
      {"GPTNeoXRewardModel", names, 3 * kModelWidth * kHalf},
      {"LlamaForSequenceClassification", Json::object(), 2 * kModelWidth * kFloat},
      {"LlamaForSequenceClassification", {{"num_labels", 5}}, 5 * kModelWidth * kFloat},
      {"LlamaForSequenceClassification", names, 3 * kModelWidth * kFloat},
  };
  for (const Row& row : rows) {
    INFO(row.architecture << " " << row.changes.dump());
    CHECK(bytes_of(Part::lm_head, decoder(row.architecture, row.changes)) == row.bytes);
  }
  // Ranks divide the width between them: of the first layer, then of the second.
  ShapeOptions half;
  half.tensor_parallel = 2;
  CHECK(bytes_of(Part::lm_head, decoder("InternLM2ForRewardModel"), half) ==
        kModelWidth / 2 * kFloat);
  CHECK(bytes_of(Part::lm_head, decoder("Qwen2ForRewardModel"), half) ==
        (kModelWidth + 1) * kModelWidth / 2 * kFloat + kModelWidth / 2 * kFloat + kFloat);
}

TEST_CASE("layers that no kin of an unknown architecture counts are named") {
  for (const char* key : {"mamba_d_state", "ssm_cfg_size", "linear_num_key_heads", "state_size",
                          "experts_in_each_layer"}) {
    CHECK(uncounted({{key, 16}}) == key);
    CHECK(uncounted({{key, 1}}).empty());
    CHECK(uncounted({{key, "16"}}).empty());
  }
  CHECK(uncounted({{"num_experts", 4}, {"experts_in_each_layer", 16}}).empty());
  for (const char* type : {"linear_attention", "mamba", "conv"}) {
    CHECK(uncounted({{"layer_types", {"full_attention", type}}}) ==
          "layer_types: \"" + std::string(type) + "\"");
  }
  CHECK(uncounted({{"layer_types", {"full_attention", "sliding_attention"}}}).empty());
}

TEST_CASE("an unknown architecture's config has the sizes of a decoder, or is refused") {
  const auto refusal = [](Json config) -> std::string {
    const Quantization plain;
    RankWeights weights(1, 2, plain);
    try {
      shape_of(config, weights);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const Json whole = decoder("WombatForCausalLM");
  CHECK(refusal(whole).empty());
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size",
                          "intermediate_size"}) {
    Json config = whole;
    config.erase(key);
    CHECK_THAT(refusal(config), Catch::Contains("\"WombatForCausalLM\" is not known"));
  }
  Json mixture = whole;  // whose experts have a width of their own
  mixture.erase("intermediate_size");
  mixture.update({{"moe_intermediate_size", 32}, {"num_experts", 4}, {"num_experts_per_tok", 2}});
  CHECK(refusal(mixture).empty());
  Json nameless = {{"model_type", "wombat"}, {"hidden_size", 8}};
  CHECK_THAT(refusal(nameless), Catch::Contains("\"(none named)\" is not known"));
  nameless.erase("model_type");
  CHECK_THAT(refusal(nameless), Catch::Contains("neither \"architectures\" nor \"model_type\""));
}

TEST_CASE("a type of a cache that no backend takes is named as it was asked for") {
  struct Row {
    const char* dtype;
    bool stored, sparse;
    const char* said;  // empty: a backend of Hopper takes it
  };
  const Row rows[] = {
      {"auto", false, false, ""},
      {"auto", true, false, ""},
      {"float32", false, false, ""},
      {"bfloat16", true, true, ""},
      {"fp8_ds_mla", false, true, ""},
      {"fp8_ds_mla", false, false, "kv_cache_dtype=fp8_ds_mla, use_mla=True, use_sparse=False"},
      {"int8", false, true, "kv_cache_dtype=of this type, use_mla=True, use_sparse=True"},
  };
  for (const Row& row : rows) {
    INFO(row.dtype);
    LatentCache cache{.version = {0, 33, 0}};
    cache.type = cache_type(row.dtype, row.stored);
    const std::string said = row.said;
    if (said.empty()) {
      CHECK_FALSE(latent_backend(cache, row.sparse).name.empty());
    } else {
      CHECK_THROWS_WITH(latent_backend(cache, row.sparse),
                        Catch::Contains(said) && Catch::Contains("another --kv-cache-dtype"));
    }
  }
  LatentCache old{.version = {0, 33, 0}, .card = hardware::Architecture::ampere};
  CHECK_THROWS_WITH(
      latent_backend(old, true),
      Catch::Contains("kv_cache_dtype=auto") && Catch::EndsWith("Use a Hopper or Blackwell card."));
}

TEST_CASE("a state's type is that of the first setting that names one") {
  const auto state = [](const Json& changes, const std::string& asked) {
    Json config = decoder("NemotronHForCausalLM", {{"model_type", "nemotron_h"},
                                                   {"num_hidden_layers", 1},
                                                   {"hybrid_override_pattern", "M"},
                                                   {"mamba_num_heads", 4},
                                                   {"mamba_head_dim", 16},
                                                   {"ssm_state_size", 8},
                                                   {"n_groups", 2},
                                                   {"conv_kernel", 4},
                                                   {"expand", 1}});
    config.update(changes);
    const Quantization plain;
    RankWeights weights(1, 2, plain);
    ShapeOptions options;
    options.version = {0, 19, 0};  // whose states have the model's type
    options.state_dtype = asked;
    return shape_of(config, weights, options).kv_layers.front().token_bytes.value();
  };
  const int64_t half = state(Json::object(), "");
  const int64_t whole = state(Json::object(), "float32");
  CHECK(whole - half == 4 * 16 * 8 * 2);
  CHECK(state(Json::object(), "auto") == half);
  for (const char* key : {"mamba_ssm_dtype", "mamba_ssm_cache_dtype"}) {
    CHECK(state({{key, "float32"}}, "") == whole);
    CHECK(state({{key, "float32"}}, "auto") == whole);
    CHECK(state({{key, "float32"}}, "float16") == half);
    CHECK(state({{key, "auto"}}, "") == half);
  }
  CHECK(state({{"mamba_ssm_dtype", "auto"}, {"mamba_ssm_cache_dtype", "float32"}}, "") == whole);
}

TEST_CASE("ranks that divide tokens hold a dense layer whole, but in a pipeline") {
  const Json config = decoder("DeepseekV32ForCausalLM", {{"model_type", "deepseek_v32"},
                                                         {"num_key_value_heads", 4},
                                                         {"q_lora_rank", 16},
                                                         {"kv_lora_rank", 16},
                                                         {"qk_nope_head_dim", 16},
                                                         {"qk_rope_head_dim", 8},
                                                         {"v_head_dim", 16},
                                                         {"index_topk", 32},
                                                         {"index_head_dim", 128},
                                                         {"index_n_heads", 4},
                                                         {"n_routed_experts", 4},
                                                         {"num_experts_per_tok", 2},
                                                         {"n_shared_experts", 1},
                                                         {"moe_intermediate_size", 32},
                                                         {"first_k_dense_replace", 1}});
  constexpr int64_t kDense = 3 * kModelWidth * 96 * 2, kShared = 3 * kModelWidth * 32 * 2;
  const auto mlp = [&](int64_t stages, const model::VllmVersion& version) {
    ShapeOptions options;
    options.version = version;
    options.tensor_parallel = options.data_parallel = 2;
    options.expert_parallel = true;
    options.pipeline_parallel = stages;
    return bytes_of(Part::mlp, config, options);
  };
  CHECK(mlp(1, {0, 33, 0}) == kDense + kShared);
  CHECK(mlp(1, {0, 29, 0}) == kDense + kShared);
  CHECK(mlp(1, {0, 28, 0}) == kDense / 2 + kShared);
  CHECK(mlp(2, {0, 33, 0}) == kDense / 2);  // the first stage has that layer alone
}

}  // namespace plimsoll::vllm::shape_keys
