// Mixtures that vLLM has a class for and transformers none, or another: names of tensors, routers,
// and what their configs leave open.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "base/error.h"
#include "model/config.h"

using namespace plimsoll;
using Catch::Contains;
using model::LayerSpec;
using model::ModelSpec;
using model::RouterScore;

namespace {

Json config_of(const char* architecture, const char* changes) {
  Json config = {
      {"architectures", {architecture}}, {"vocab_size", 100},           {"hidden_size", 32},
      {"intermediate_size", 48},         {"moe_intermediate_size", 16}, {"num_hidden_layers", 3},
      {"num_attention_heads", 4},        {"num_key_value_heads", 4},    {"num_experts_per_tok", 2},
      {"max_position_embeddings", 64},   {"rms_norm_eps", 1e-5}};
  config.merge_patch(Json::parse(changes));
  return config;
}

ModelSpec spec_of(const char* architecture, const char* changes) {
  return model::make_model_spec(config_of(architecture, changes));
}

/// vLLM's names of the weights below a layer, with what they are first made of in the checkpoint.
std::map<std::string, std::string> tensors_of(const ModelSpec& spec, int layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  std::map<std::string, std::string> tensors;
  for (const model::WeightSpec& weight : spec.weights) {
    if (!weight.name.starts_with(prefix)) continue;
    tensors[weight.name.substr(prefix.size())] = weight.parts.front().tensor.substr(prefix.size());
  }
  return tensors;
}

constexpr const char* kLatents = R"("kv_lora_rank": 8, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4, "v_head_dim": 8)";

std::string with_latents(const char* more) {
  return fmt::format("{{{}, {}}}", kLatents, more);
}

}  // namespace

TEST_CASE("DeepSeek's first mixture has whole heads, and weights that may stay as they are") {
  const char* experts = R"({"n_routed_experts": 8, "n_shared_experts": 2,
                            "first_k_dense_replace": 1, "attention_bias": true})";
  const ModelSpec spec = spec_of("DeepseekForCausalLM", experts);
  CHECK(spec.layers[0].mlp.kind == model::MlpKind::gated);
  const model::MlpSpec& mlp = spec.layers[1].mlp;
  CHECK(mlp.experts == 8);
  CHECK(mlp.shared.intermediate == 32);
  CHECK(mlp.router.score == RouterScore::softmax);
  CHECK_FALSE(mlp.router.normalize);
  const auto tensors = tensors_of(spec, 1);
  CHECK(tensors.at("self_attn.qkv_proj.weight") == "self_attn.q_proj.weight");
  CHECK(tensors.at("mlp.experts.gate.weight") == "mlp.gate.weight");
  // vLLM's class has no biases of attention.
  CHECK(spec.weight(spec.layers[1].attention.qkv.bias).kept == model::Kept::in_run);

  Json groups = Json::parse(experts);
  groups.update({{"norm_topk_prob", true},
                 {"topk_method", "group_limited_greedy"},
                 {"n_group", 4},
                 {"topk_group", 2}});
  const ModelSpec grouped = spec_of("DeepseekForCausalLM", groups.dump().c_str());
  CHECK(grouped.layers[1].mlp.router.normalize);
  CHECK(grouped.layers[1].mlp.router.groups == 4);
  groups["scoring_func"] = "sigmoid";
  CHECK_THROWS_WITH(spec_of("DeepseekForCausalLM", groups.dump().c_str()),
                    Contains("\"scoring_func\" is \"sigmoid\""));
}

TEST_CASE("A.X-K1 norms what experts give; dense layers have the norm and no use for it") {
  const std::string config = with_latents(R"("q_lora_rank": 8, "n_routed_experts": 8,
      "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1)");
  const ModelSpec spec = spec_of("AXK1ForCausalLM", config.c_str());
  CHECK_FALSE(spec.layers[0].mlp_post_norm.present);
  CHECK(spec.layers[1].mlp_post_norm.present);
  const auto kept = [&](int layer) {
    const std::string name = fmt::format("model.layers.{}.post_mlp_layernorm.weight", layer);
    for (const model::WeightSpec& weight : spec.weights)
      if (weight.name == name) return weight.kept;
    FAIL(name);
    return model::Kept::in_run;
  };
  CHECK(kept(0) == model::Kept::in_vllm);
  CHECK(kept(1) == model::Kept::in_model);
  const auto bias = [&](const char* method) {
    Json changes = Json::parse(config);
    if (method != nullptr) changes["topk_method"] = method;
    const ModelSpec of = spec_of("AXK1ForCausalLM", changes.dump().c_str());
    return of.weight(of.layers[1].mlp.router.choice_bias).kept;
  };
  CHECK(bias(nullptr) == model::Kept::in_model);
  CHECK(bias("noaux_tc") == model::Kept::in_model);
  CHECK(bias("greedy") == model::Kept::in_run);  // a checkpoint may lack it
}

TEST_CASE("Ling stores q, k and v as one, and says how its router scores") {
  const char* second = R"({"num_experts": 8, "num_shared_experts": 2, "num_key_value_heads": 2,
      "use_qk_norm": true, "use_rmsnorm": true, "score_function": "sigmoid", "n_group": 4,
      "topk_group": 2, "moe_router_enable_expert_bias": true, "routed_scaling_factor": 2.5,
      "moe_shared_expert_intermediate_size": 24, "first_k_dense_replace": 1,
      "partial_rotary_factor": 0.5, "router_dtype": "fp32"})";
  const ModelSpec spec = spec_of("BailingMoeV2ForCausalLM", second);
  const auto tensors = tensors_of(spec, 1);
  CHECK(tensors.at("attention.query_key_value.weight") == "attention.query_key_value.weight");
  CHECK(tensors.at("attention.dense.weight") == "attention.dense.weight");
  CHECK(tensors.at("attention.query_layernorm.weight") == "attention.query_layernorm.weight");
  CHECK(tensors.at("mlp.experts.routed_experts.e_score_correction_bias") == "mlp.gate.expert_bias");
  const model::MlpSpec& mlp = spec.layers[1].mlp;
  CHECK(mlp.shared.intermediate == 48);
  CHECK(mlp.router.score == RouterScore::sigmoid);
  CHECK(mlp.router.groups == 4);
  CHECK(mlp.router.group_score == model::GroupScore::two_best);
  CHECK(spec.ropes[0].rotary_dim == 4);

  const ModelSpec first = spec_of("BailingMoeForCausalLM", R"({"num_experts": 8})");
  CHECK(first.layers[0].mlp.router.score == RouterScore::softmax);
  CHECK(first.layers[0].mlp.router.groups == 1);
  CHECK(first.layers[0].mlp.shared.intermediate == 0);
  CHECK_FALSE(first.layers[0].attention.q_norm.present);
  const ModelSpec layer_norms =
      spec_of("BailingMoeForCausalLM", R"({"num_experts": 8, "use_qk_norm": true})");
  CHECK(layer_norms.layers[0].attention.q_norm.kind == model::NormKind::layer);
  CHECK(layer_norms.layers[0].attention.q_norm.epsilon == 1e-6f);
  CHECK(spec_of("BailingMoeForCausalLM", R"({"num_experts": 8, "rotary_dim": 6})")
            .ropes[0]
            .rotary_dim == 6);

  for (const auto& [changes, says] : {
           std::pair{R"({"num_experts": 8, "norm_head": true})", R"("norm_head" is true)"},
           std::pair{R"({"num_experts": 8, "score_function": "sigmoid"})", "score_function"},
           std::pair{R"({"num_experts": 8, "score_function": "softmax",
                         "moe_router_enable_expert_bias": true})",
                     "score_function"},
       }) {
    CHECK_THROWS_WITH(spec_of("BailingMoeForCausalLM", changes), Contains(says));
  }
}

TEST_CASE("Param2 has Ling's names in the checkpoint and others in vLLM") {
  const ModelSpec spec = spec_of("Param2MoEForCausalLM",
                                 R"({"num_experts": 8, "num_shared_experts": 2, "use_qk_norm": true,
                                     "moe_shared_expert_intermediate_size": 24})");
  CHECK(spec.weight(spec.embedding).name == "model.embed_tokens.weight");
  CHECK(spec.weight(spec.embedding).parts[0].tensor == "model.word_embeddings.weight");
  const auto tensors = tensors_of(spec, 1);
  CHECK(tensors.at("self_attn.qkv_proj.weight") == "attention.query_key_value.weight");
  CHECK(tensors.at("self_attn.o_proj.weight") == "attention.dense.weight");
  CHECK(tensors.at("self_attn.k_layernorm.weight") == "attention.key_layernorm.weight");
  CHECK(spec.layers[0].mlp.kind == model::MlpKind::gated);
  CHECK(spec.layers[1].mlp.shared.intermediate == 24);  // of all together
  CHECK(spec.layers[1].mlp.router.score == RouterScore::sigmoid);
}

TEST_CASE("Sarvam's latents have the config's epsilon, and its RoPE goes by vLLM's name") {
  const std::string config = with_latents(R"("num_experts": 8, "first_k_dense_replace": 1,
      "rope_scaling": {"type": "deepseek_yarn", "factor": 40, "mscale": 1, "mscale_all_dim": 1,
                       "original_max_position_embeddings": 32})");
  const ModelSpec spec = spec_of("SarvamMLAForCausalLM", config.c_str());
  CHECK(spec.layers[0].attention.latent.kv_norm.epsilon == 1e-5f);
  CHECK(spec.layers[1].mlp.router.factor == 2.5f);
  CHECK(spec.layers[1].mlp.router.score == RouterScore::sigmoid);
  CHECK(tensors_of(spec, 1).at("mlp.experts.routed_experts.e_score_correction_bias") ==
        "mlp.gate.e_score_correction_bias");
  const double share = 0.1 * std::log(40) + 1;
  CHECK(spec.layers[0].attention.scale == Approx(share * share / std::sqrt(12.0)));
  Json low = Json::parse(config);
  low["q_lora_rank"] = 8;
  CHECK_THROWS_WITH(spec_of("SarvamMLAForCausalLM", low.dump().c_str()),
                    Contains("\"q_lora_rank\" is 8"));
}

TEST_CASE("openPangu Ultra's layers have four norms where the config says so") {
  const std::string config = with_latents(R"("q_lora_rank": 8, "n_routed_experts": 8,
      "first_k_dense_replace": 1, "sandwich_norm": true, "router_enable_expert_bias": true)");
  const ModelSpec spec = spec_of("PanguUltraMoEForCausalLM", config.c_str());
  const LayerSpec& layer = spec.layers[1];
  CHECK(layer.placement == model::NormPlacement::sandwich);
  CHECK(spec.weight(layer.attention_post_norm.weight).name ==
        "model.layers.1.post_attention_layernorm.weight");
  CHECK(spec.weight(layer.mlp_norm.weight).name == "model.layers.1.pre_mlp_layernorm.weight");
  CHECK(tensors_of(spec, 1).at("mlp.experts.routed_experts.e_score_correction_bias") ==
        "mlp.e_score_correction_bias");
  CHECK(layer.attention.latent.q_norm.epsilon == 1e-5f);
  Json plain = Json::parse(config);
  plain["sandwich_norm"] = false;
  CHECK(spec_of("PanguUltraMoEForCausalLM", plain.dump().c_str()).layers[1].placement ==
        model::NormPlacement::pre);
}

TEST_CASE("Step 3.5's layers have heads, bases and bounds of their own") {
  const char* config = R"({"head_dim": 8, "num_attention_groups": 2, "moe_num_experts": 8,
      "moe_top_k": 2, "share_expert_dim": 24, "moe_layers_enum": "1,2", "sliding_window": 16,
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                      "full_attention"],
      "attention_other_setting": {"attention_type": "sliding_attention",
          "num_attention_heads": 6, "num_attention_groups": 3, "head_dim": 8},
      "rope_theta": [5e6, 1e4, 1e4, 5e6], "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5],
      "use_rope_layers": [true, true, false, true], "use_head_wise_attn_gate": true,
      "moe_router_activation": "sigmoid", "moe_router_scaling_factor": 3.0,
      "swiglu_limits": [0.0, 7.0, 0.0], "swiglu_limits_shared": [16.0, 0.0, 16.0]})";
  const ModelSpec spec = spec_of("Step3p5ForCausalLM", config);
  const LayerSpec& first = spec.layers[0];
  const LayerSpec& second = spec.layers[1];
  CHECK((first.attention.heads == 4 && first.attention.kv_heads == 2));
  CHECK((second.attention.heads == 6 && second.attention.kv_heads == 3));
  CHECK((first.attention.window == 0 && second.attention.window == 16));
  CHECK(spec.ropes.size() == 2);
  CHECK(spec.ropes[0].rotary_dim == 4);
  CHECK(spec.ropes[1].rotary_dim == 8);
  CHECK(spec.layers[2].attention.rope == -1);
  CHECK(first.attention.q_norm.weight_offset == 1);
  CHECK(first.attention.gate.weight != model::kNoWeight);
  CHECK(first.mlp.limits.up == 16);
  CHECK(second.mlp.limits.up == 7);
  CHECK_FALSE(second.mlp.shared.limits.any());
  CHECK(spec.layers[2].mlp.shared.limits.up == 16);
  // The gate that SiLU takes to the bound.
  const auto gate = static_cast<double>(second.mlp.limits.gate);
  CHECK(gate / (1 + std::exp(-gate)) == Approx(7).epsilon(1e-6));
  const auto tensors = tensors_of(spec, 1);
  CHECK(tensors.at("moe.experts.routed_experts.w13_weight") == "moe.gate_proj.weight[0]");
  CHECK(tensors.at("moe.experts._shared_experts._layer.gate_up_proj.weight") ==
        "share_expert.gate_proj.weight");
  CHECK(tensors.at("moe.experts.routed_experts.e_score_correction_bias") == "moe.router_bias");

  for (const auto& [changes, says] :
       {std::pair{R"({"use_moe_router_bias": false})", "use_moe_router_bias"},
        std::pair{R"({"rope_theta": [1e4]})", R"("rope_theta")"},
        std::pair{R"({"rope_theta": [1e4, -1, 1e4]})", R"("rope_theta")"},
        std::pair{R"({"num_attention_groups": 3})", "num_attention_groups"},
        std::pair{R"({"layer_types": ["full_attention"]})", "a list of 3 layers"}}) {
    Json changed = Json::parse(config);
    changed.merge_patch(Json::parse(changes));
    CHECK_THROWS_WITH(spec_of("Step3p5ForCausalLM", changed.dump().c_str()), Contains(says));
  }
}

TEST_CASE("Nemotron-NAS tells of each layer which parts it has") {
  const char* config = R"({"block_configs": [
      {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 12.0}},
      {"attention": {"no_op": true}, "ffn": {"intermediate_size": 40}},
      {"attention": {"n_heads_in_group": 4}, "ffn": {"no_op": true}}]})";
  const ModelSpec spec = spec_of("DeciLMForCausalLM", config);
  CHECK(spec.layers[0].attention.kv_heads == 2);
  CHECK(spec.layers[0].mlp.intermediate == 256);
  CHECK_FALSE(spec.layers[1].has_attention());
  CHECK(spec.layers[1].mlp.intermediate == 40);
  CHECK(spec.layers[2].attention.kv_heads == 1);
  CHECK(spec.layers[2].mlp.kind == model::MlpKind::none);
  for (const auto& [blocks, says] : {
           std::pair{R"([])", "block_configs"},
           std::pair{R"([1, 2, 3])", "block_configs"},
           std::pair{R"([{}, {}, {}])", "n_heads_in_group"},
           std::pair{R"([{"attention": {"n_heads_in_group": 5}}, {}, {}])", "n_heads_in_group"},
           std::pair{
               R"([{"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1e9}}, {}, {}])",
               "ffn_mult"},
           std::pair{R"([{"attention": {"replace_with_linear": true}}, {}, {}])",
                     "replace_with_linear"},
       }) {
    const Json changes = {{"block_configs", Json::parse(blocks)}};
    CHECK_THROWS_WITH(spec_of("DeciLMForCausalLM", changes.dump().c_str()), Contains(says));
  }
}
