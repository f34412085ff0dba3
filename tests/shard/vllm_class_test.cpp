// Rules of vLLM's classes beside the weights: launches that they refuse by heads, groups and
// experts, and biases that they have no place for. Seen with tests/against/shards.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "shard/layout.h"
#include "shard/model_folder.h"
#include "shard/ranks/rank_model.h"
#include "shard/refusals.h"

namespace plimsoll::shard {
namespace {

model::ModelSpec golden_spec(const std::string& name) {
  return model::make_model_spec(read_fixture(("golden/models/" + name + "/config.json").c_str()));
}

/// Three layers with eight heads and, where it has experts, four.
model::ModelSpec spec_of(const char* architecture, const char* model_type, const Json& more) {
  Json config = {{"architectures", {architecture}},
                 {"model_type", model_type},
                 {"hidden_size", 64},
                 {"intermediate_size", 64},
                 {"moe_intermediate_size", 64},
                 {"shared_expert_intermediate_size", 64},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 8},
                 {"vocab_size", 512},
                 {"num_experts", 4},
                 {"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"full_attention_interval", 2}};
  if (!more.is_null()) config.update(more);
  return model::make_model_spec(config);
}

constexpr Release kNow{.minor = 32};

void check_refused(const model::ModelSpec& spec, const Layout& layout, const std::string& why) {
  CHECK_THROWS_WITH(make_stages(spec, layout), Catch::Contains(why));
}

}  // namespace

TEST_CASE("ranks that do not divide a mixer's heads or groups are refused, as vLLM refuses them") {
  const model::ModelSpec latents = golden_spec("glm_moe_dsa");
  CHECK_NOTHROW(make_stages(latents, {.tensor_parallel = 4}));
  check_refused(latents, {.tensor_parallel = 8}, "layer 0 has 4 query heads; vLLM refuses it too");
  const model::ModelSpec mamba = golden_spec("granitemoehybrid_dense");
  CHECK_NOTHROW(make_stages(mamba, {.tensor_parallel = 2}));
  check_refused(mamba, {.tensor_parallel = 4}, "2 groups of B and C");
}

TEST_CASE("parameters that vLLM's classes make in a dtype of their own keep it") {
  struct Row {
    const char* architecture;
    const char* model_type;
    Json more;
    const char* name;
    DType dtype;
  };
  const Json ling = {{"num_shared_experts", 1}}, mimo = {{"num_key_value_heads", 4}};
  const auto with = [](Json config, const Json& more) {
    config.update(more);
    return config;
  };
  const Row rows[] = {
      {"ApertusForCausalLM", "apertus", {}, "mlp.act_fn.alpha_p", DType::bf16},
      {"ApertusForCausalLM", "apertus", {}, "mlp.act_fn.eps", DType::bf16},
      {"ApertusForCausalLM", "apertus", {}, "mlp.up_proj.weight", DType::f16},
      {"BailingMoeV2ForCausalLM", "bailing_moe_v2", ling, "mlp.gate.weight", DType::f16},
      {"BailingMoeV2ForCausalLM", "bailing_moe_v2", with(ling, {{"router_dtype", "fp32"}}),
       "mlp.gate.weight", DType::f32},
      {"BailingMoeV2ForCausalLM", "bailing_moe_v2", with(ling, {{"router_dtype", "bf16"}}),
       "mlp.gate.weight", DType::bf16},
      {"MiMoV2FlashForCausalLM", "mimo_v2_flash", mimo, "mlp.gate.weight", DType::f32},
      {"MiMoV2FlashForCausalLM", "mimo_v2_flash", with(mimo, {{"moe_router_dtype", "bfloat16"}}),
       "mlp.gate.weight", DType::bf16},
  };
  for (const Row& row : rows) {
    INFO(row.architecture << " " << row.more << " " << row.name);
    const auto stages =
        make_stages(spec_of(row.architecture, row.model_type, row.more), {.dtype = DType::f16});
    const auto at = std::ranges::find_if(
        stages.front(), [&](const ShardTensor& tensor) { return tensor.name.ends_with(row.name); });
    REQUIRE(at != stages.front().end());
    CHECK(torch_name(at->dtype) == torch_name(row.dtype));
  }
}

TEST_CASE("gpt-oss is refused more ranks than it has KV heads") {
  const model::ModelSpec spec =
      spec_of("GptOssForCausalLM", "gpt_oss", {{"num_key_value_heads", 2}, {"head_dim", 8}});
  CHECK_NOTHROW(make_stages(spec, {.tensor_parallel = 2}));
  check_refused(spec, {.tensor_parallel = 4}, "layer 0 has 2 KV heads, fewer than ranks");
  CHECK_NOTHROW(make_stages(spec_of("LlamaForCausalLM", "llama", {{"num_key_value_heads", 2}}),
                            {.tensor_parallel = 4}));
}

TEST_CASE("biases of Mamba-2 with one group are refused several ranks") {
  const auto mamba = [](bool bias) {
    return spec_of("FalconH1ForCausalLM", "falcon_h1",
                   {{"mamba_d_ssm", 64},
                    {"mamba_n_heads", 8},
                    {"mamba_n_groups", 1},
                    {"mamba_d_state", 8},
                    {"projectors_bias", bias},
                    {"mamba_proj_bias", bias}});
  };
  CHECK_NOTHROW(make_stages(mamba(false), {.tensor_parallel = 2}));
  CHECK_NOTHROW(make_stages(mamba(true), {}));
  check_refused(mamba(true), {.tensor_parallel = 2}, "one group of B and C with biases");
}

TEST_CASE("a class that never ties its head wants one in the checkpoint") {
  const Json tied = {{"tie_word_embeddings", true}};
  CHECK(spec_of("OlmoeForCausalLM", "olmoe", tied).vllm.never_ties);
  CHECK_FALSE(spec_of("LlamaForCausalLM", "llama", tied).vllm.never_ties);
  // SmolVLM's asks the config of the text.
  Json config = read_fixture("golden/multimodal_run/idefics3/config.json");
  config["tie_word_embeddings"] = true;
  for (const bool text : {false, true}) {
    config["text_config"]["tie_word_embeddings"] = text;
    CHECK(model::make_model_spec(config).vllm.never_ties == !text);
  }
}

TEST_CASE("stages that vLLM fails to load are refused") {
  check_refused(golden_spec("granitemoehybrid_dense"), {.pipeline_parallel = 2},
                "vLLM 0.32 fails to load stages of GraniteMoeHybridForCausalLM");
  const auto ernie = [](bool tied) {
    return spec_of("Ernie4_5_MoeForCausalLM", "ernie4_5_moe",
                   {{"moe_num_experts", 4}, {"moe_k", 2}, {"tie_word_embeddings", tied}});
  };
  check_refused(ernie(true), {.pipeline_parallel = 2}, "fails to load stages of Ernie4_5_Moe");
  CHECK_NOTHROW(make_stages(ernie(false), {.pipeline_parallel = 2}));
}

TEST_CASE("a first stage has the table that the last one's head shares under the module's name") {
  const Json config = {{"architectures", {"GPTBigCodeForCausalLM"}},
                       {"model_type", "gpt_bigcode"},
                       {"n_embd", 64},
                       {"n_head", 4},
                       {"n_layer", 2},
                       {"n_positions", 64},
                       {"vocab_size", 512}};
  const auto names = [](const Stage& stage) {
    std::vector<std::string> found;
    for (const ShardTensor& tensor : stage) found.push_back(tensor.name);
    return found;
  };
  const auto stages = make_stages(model::make_model_spec(config), {.pipeline_parallel = 2});
  CHECK_THAT(names(stages[0]), Catch::VectorContains(std::string("model.wte.weight")));
  CHECK_THAT(names(stages[1]), Catch::VectorContains(std::string("lm_head.weight")));
}

TEST_CASE("keys that vLLM's class alone cannot do without are wanted of shards") {
  const auto refused = [](const char* architecture, const char* type, const Json& more) {
    return spec_of(architecture, type, more).vllm.refused;
  };
  const Json silent = {{"use_qk_norm", true}};
  CHECK_THAT(refused("Glm4MoeForCausalLM", "glm4_moe", silent),
             Catch::Contains("looks up \"head_dim\""));
  CHECK(refused("Glm4MoeForCausalLM", "glm4_moe", {{"use_qk_norm", true}, {"head_dim", nullptr}})
            .empty());
  CHECK_THAT(refused("AfmoeForCausalLM", "afmoe",
                     {{"n_group", 1}, {"topk_group", 1}, {"route_norm", true}}),
             Catch::Contains("looks up \"score_func\""));
  CHECK_THAT(refused("Lfm2ForCausalLM", "lfm2", {{"block_dim", 64}}),
             Catch::Contains("looks up \"conv_dim\""));
  CHECK_THAT(refused("Lfm2ForCausalLM", "lfm2", {{"block_dim", 64}, {"conv_dim", 32}}),
             Catch::Contains("\"conv_dim\", which is not hidden_size"));
  CHECK(refused("Lfm2ForCausalLM", "lfm2", {{"block_dim", 64}, {"conv_dim", 64}}).empty());
  CHECK_THAT(refused("MiniMaxM2ForCausalLM", "minimax_m2", {}),
             Catch::Contains("looks up \"scoring_func\""));
  CHECK_THAT(refused("MiMoV2FlashForCausalLM", "mimo_v2_flash", {{"num_key_value_heads", 4}}),
             Catch::Contains("looks up \"hybrid_layer_pattern\""));
  CHECK_THAT(refused("LongcatFlashForCausalLM", "longcat_flash", {}),
             Catch::Contains("looks up \"mla_scale_kv_lora\""));
  Json hunyuan = {{"head_dim", 8}, {"qk_norm", true}, {"route_norm", true}};
  CHECK_THAT(refused("HYV3ForCausalLM", "hy_v3", hunyuan),
             Catch::Contains("looks up \"first_k_dense_replace\""));
  hunyuan["first_k_dense_replace"] = 1;
  CHECK(refused("HYV3ForCausalLM", "hy_v3", hunyuan).empty());
  hunyuan.erase("qk_norm");
  CHECK_THAT(refused("HYV3ForCausalLM", "hy_v3", hunyuan), Catch::Contains("qk_norm"));
}

TEST_CASE("a list of experts' layers that vLLM's class does not read is refused where it counts") {
  const bool same = GENERATE(false, true);
  const char* const architecture = GENERATE("HYV3ForCausalLM", "KimiLinearForCausalLM");
  INFO(architecture);
  const Json more = {{"head_dim", 8},
                     {"first_k_dense_replace", 1},
                     {"mlp_layer_types", {"dense", same ? "sparse" : "dense", "sparse"}}};
  const model::ModelSpec spec = spec_of(architecture, "", more);
  CHECK(spec.layers[1].mlp.experts == (same ? 4 : 0));
  CHECK((spec.vllm.refused.find("mlp_layer_types") == std::string::npos) == same);
}

TEST_CASE("Gemma 4 has experts where vLLM's class and transformers' agree on it") {
  const auto refused = [](const Json& experts, bool enabled) {
    const Json more = {
        {"num_experts", experts},
        {"enable_moe_block", enabled},
        {"top_k_experts", 2},
        {"hidden_size_per_layer_input", 0},
        {"layer_types", {"sliding_attention", "sliding_attention", "full_attention"}}};
    return spec_of("Gemma4ForCausalLM", "gemma4_text", more).vllm.refused;
  };
  CHECK(refused(4, true).empty());
  CHECK(refused(nullptr, false).empty());
  CHECK_THAT(refused(4, false), Catch::Contains("enable_moe_block"));
}

TEST_CASE("dots.llm1's experts are refused float16 where a factor keeps vLLM from fusing them") {
  const auto dtype_of = [](double factor, DType checkpoint) {
    const model::ModelSpec spec =
        spec_of("Dots1ForCausalLM", "dots1", {{"head_dim", 8}, {"routed_scaling_factor", factor}});
    return resolve_dtype("auto", checkpoint, spec, kNow);
  };
  CHECK(dtype_of(1, DType::f16) == DType::f16);
  CHECK(dtype_of(2.5, DType::bf16) == DType::bf16);
  CHECK_THROWS_WITH(dtype_of(2.5, DType::f16), Catch::Contains("routed_scaling_factor"));
}

TEST_CASE("fewer experts than ranks are refused where vLLM's class counts them") {
  check_refused(spec_of("Qwen2MoeForCausalLM", "qwen2_moe", {}), {.tensor_parallel = 8},
                "has 4 experts, fewer than ranks");
  CHECK_NOTHROW(make_stages(spec_of("OlmoeForCausalLM", "olmoe", {}), {.tensor_parallel = 8}));
}

TEST_CASE("stages without experts are refused where vLLM's class looks for one") {
  const Json dense = {{"first_k_dense_replace", 1}, {"num_dense_layers", 1}};
  for (const auto& [architecture, model_type] : {std::pair{"Glm4MoeForCausalLM", "glm4_moe"},
                                                 {"Glm4MoeLiteForCausalLM", "glm4_moe_lite"},
                                                 {"AfmoeForCausalLM", "afmoe"}}) {
    const model::ModelSpec spec = spec_of(architecture, model_type, dense);
    CHECK_NOTHROW(make_stages(spec, {}));
    check_refused(spec, {.pipeline_parallel = 3},
                  "stage 0 has 1 layers, none of which has experts");
  }
}

TEST_CASE("biases that vLLM's class has no place for are left out of shards") {
  const std::tuple<const char*, const char*, const char*> rows[] = {
      {"CohereForCausalLM", "cohere", "attention_bias"},
      {"Ernie4_5ForCausalLM", "ernie4_5", "use_bias"},
      {"GemmaForCausalLM", "gemma", "attention_bias"},
      {"GraniteMoeForCausalLM", "granitemoe", "attention_bias"},
      {"GraniteMoeSharedForCausalLM", "granitemoeshared", "attention_bias"},
      {"OlmoeForCausalLM", "olmoe", "attention_bias"},
      {"Qwen3NextForCausalLM", "qwen3_next", "attention_bias"}};
  for (const auto& [architecture, model_type, flag] : rows) {
    INFO(architecture);
    const model::ModelSpec spec = spec_of(architecture, model_type, {{flag, true}});
    const auto is_bias = [](const std::string& name) {
      return name.find("self_attn") != std::string::npos && name.ends_with(".bias");
    };
    CHECK(std::ranges::any_of(spec.weights, is_bias, &model::WeightSpec::name));
    CHECK(std::ranges::none_of(make_stages(spec, {}).front(), is_bias, &ShardTensor::name));
  }
}

TEST_CASE("what vLLM's class does not read of a config is refused or known") {
  const auto refused = [](const char* architecture, const char* model_type, const Json& more) {
    return !spec_of(architecture, model_type, more).vllm.refused.empty();
  };
  const Json untied = {{"tie_word_embeddings", false}};
  CHECK(refused("GPTJForCausalLM", "gptj", {{"rotary_dim", 8}, {"tie_word_embeddings", true}}));
  CHECK_FALSE(refused("GPTJForCausalLM", "gptj", {{"rotary_dim", 8}}));
  CHECK(refused("BloomForCausalLM", "bloom", untied));
  CHECK(refused("FalconForCausalLM", "falcon", {{"intermediate_size", 128}}));
  CHECK_FALSE(refused("FalconForCausalLM", "falcon", {{"intermediate_size", 256}}));
  // One tensor for both, whatever the config says.
  CHECK(refused("Lfm2ForCausalLM", "lfm2", untied));
  CHECK_FALSE(refused("Lfm2ForCausalLM", "lfm2", {{"block_dim", 64}, {"conv_dim", 64}}));
  // Biases that its class has whatever the config says: a checkpoint without them is refused.
  const Json flags = {{"qkv_bias", false}, {"attention_bias", false}};
  for (const auto& [architecture, model_type] : {std::pair{"Qwen2MoeForCausalLM", "qwen2_moe"},
                                                 {"PhiMoEForCausalLM", "phimoe"},
                                                 {"GptOssForCausalLM", "gpt_oss"}}) {
    INFO(architecture);
    const model::ModelSpec spec = spec_of(architecture, model_type, flags);
    CHECK(std::ranges::any_of(spec.weights, [](const model::WeightSpec& weight) {
      return weight.kept == model::Kept::in_vllm && weight.name.ends_with("qkv_proj.bias");
    }));
    CHECK(spec.layers.front().attention.qkv.bias == model::kNoWeight);
  }
  const model::ModelSpec headed = spec_of("PhiMoEForCausalLM", "phimoe", {});
  CHECK(headed.head_bias == model::kNoWeight);
  CHECK(headed.weights.back().name == "lm_head.bias");
  CHECK(headed.weights.back().kept == model::Kept::in_vllm);
}

TEST_CASE(
    "float16 is refused by the type that the whole config states, and since the release that "
    "does") {
  const auto of_type = [](const char* type) {
    model::ModelSpec spec;
    spec.vllm.model_type = type;
    return spec;
  };
  for (const char* type : {"gemma2", "gemma3", "gemma3_text", "glm4"}) {
    INFO(type);
    CHECK_THROWS_AS(resolve_dtype("float16", DType::bf16, of_type(type), kNow), Error);
    CHECK(resolve_dtype("auto", DType::f16, of_type(type), kNow) == DType::bf16);
  }
  // Wrappers of the same language models, and releases before.
  CHECK(resolve_dtype("float16", DType::bf16, of_type("llava"), kNow) == DType::f16);
  CHECK(resolve_dtype("float16", DType::bf16, of_type("gemma2"), {.minor = 9}) == DType::f16);
  CHECK_THROWS_AS(
      resolve_dtype("float16", DType::bf16, of_type("gemma2"), {.minor = 9, .patch = 1}), Error);
  CHECK(resolve_dtype("auto", DType::f32, of_type("gemma2"), {.minor = 8}) == DType::bf16);
  CHECK(resolve_dtype("auto", DType::f32, of_type("llama"), {.minor = 8}) == DType::f16);
  CHECK(resolve_dtype("auto", DType::f32, of_type("llama"), kNow) == DType::bf16);
  CHECK(resolve_dtype("auto", DType::f64, of_type("llama"), {.minor = 8}) == DType::bf16);
}

TEST_CASE("a config states its type, else its family does") {
  const Json outer = {{"model_type", "gemma2"}};
  CHECK(spec_of("LlamaForCausalLM", "llama", outer).vllm.model_type == "gemma2");
  Json config = read_fixture("golden/models/llama/config.json");
  config.erase("model_type");
  CHECK(model::make_model_spec(config).vllm.model_type == "llama");
}

TEST_CASE("a class without stages is refused more than one") {
  const model::ModelSpec spec = spec_of(
      "Mamba2ForCausalLM", "mamba2",
      {{"num_heads", 16}, {"head_dim", 8}, {"state_size", 8}, {"n_groups", 1}, {"expand", 2}});
  CHECK(make_stages(spec, {}).size() == 1);
  CHECK_THROWS_WITH(make_stages(spec, {.pipeline_parallel = 2}),
                    Catch::Contains("vLLM's Mamba2ForCausalLM has no stages"));
}

}  // namespace plimsoll::shard
