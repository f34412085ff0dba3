// Families whose classes come with their checkpoints: what vLLM calls their weights, and where
// checkpoints have them.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using model::ModelSpec;
using model::Part;
using model::WeightSpec;
using plimsoll::testing::tiny_config;
using plimsoll::testing::weight_named;

namespace {

ModelSpec described(const char* architecture, const char* changes = "{}") {
  return model::make_model_spec(tiny_config(architecture, Json::parse(changes)));
}

bool has_weight(const ModelSpec& spec, const std::string& name) {
  return std::ranges::find(spec.weights, name, &WeightSpec::name) != spec.weights.end();
}

/// The checkpoint's tensors of a weight, in order.
std::vector<std::string> stored_names(const ModelSpec& spec, const std::string& name) {
  std::vector<std::string> tensors;
  for (const Part& part : weight_named(spec, name).parts) tensors.push_back(part.tensor);
  return tensors;
}

using TensorNames = std::vector<std::string>;

}  // namespace

TEST_CASE("InternLM has biases of attention unless told otherwise") {
  CHECK(has_weight(described("InternLMForCausalLM"), "model.layers.0.self_attn.o_proj.bias"));
  const ModelSpec plain = described("InternLMForCausalLM", R"({"bias": false})");
  CHECK_FALSE(has_weight(plain, "model.layers.0.self_attn.qkv_proj.bias"));
}

TEST_CASE("Orion is a Llama with LayerNorms") {
  const ModelSpec spec = described("OrionForCausalLM", R"({"rms_norm_eps": 0.25})");
  CHECK(has_weight(spec, "model.layers.0.post_attention_layernorm.bias"));
  CHECK(spec.final_norm.kind == model::NormKind::layer);
  CHECK(spec.final_norm.epsilon == 0.25f);
  CHECK_FALSE(spec.vllm.knows_stage);
}

TEST_CASE("TeleChat 2 stores keys and values of a head one after the other") {
  const ModelSpec spec = described("TeleChat2ForCausalLM");
  const std::string layer = "model.layers.0.", there = "transformer.h.0.";
  CHECK(stored_names(spec, layer + "self_attn.qkv_proj.weight") ==
        TensorNames{there + "self_attention.query.weight",
                    there + "self_attention.key_value.weight",
                    there + "self_attention.key_value.weight"});
  const WeightSpec& qkv = weight_named(spec, layer + "self_attn.qkv_proj.weight");
  CHECK(qkv.parts[1].run_at(4).first == 8);  // of the second KV head
  CHECK(qkv.parts[2].run_at(0).first == 4);
  CHECK(stored_names(spec, layer + "self_attn.o_proj.bias") ==
        TensorNames{there + "self_attention.dense.bias"});
  CHECK(stored_names(spec, layer + "mlp.down_proj.bias") ==
        TensorNames{there + "mlp.down_proj.bias"});
  CHECK_FALSE(has_weight(spec, layer + "mlp.gate_up_proj.bias"));
  CHECK_FALSE(has_weight(spec, layer + "self_attn.qkv_proj.bias"));
  CHECK(stored_names(spec, "model.norm.weight") == TensorNames{"transformer.ln_f.weight"});
  const ModelSpec tied = described("TeleChat2ForCausalLM", R"({"tie_word_embeddings": true})");
  CHECK(stored_names(tied, "lm_head.weight") == TensorNames{"transformer.word_embeddings.weight"});
  CHECK(tied.tensor_prefixes.front().first == "transformer.word_embeddings.weight");
}

TEST_CASE("EXAONE 3") {
  const ModelSpec spec = described("ExaoneForCausalLM", R"({"logit_scale": 0.5})");
  CHECK(stored_names(spec, "transformer.h.0.mlp.gate_up_proj.weight") ==
        TensorNames{"transformer.h.0.mlp.c_fc_0.weight", "transformer.h.0.mlp.c_fc_1.weight"});
  CHECK(has_weight(spec, "transformer.h.0.attn.attention.out_proj.weight"));
  CHECK(spec.logits_scale == 0.5f);
}

TEST_CASE("MiniCPM scales embeddings, branches and logits, and ties its head") {
  const ModelSpec spec = described("MiniCPMForCausalLM",
                                   R"({"num_hidden_layers": 4, "scale_emb": 12, "scale_depth": 1.4,
                                     "dim_model_base": 8})");
  CHECK(spec.head == spec.embedding);
  CHECK(spec.embedding_scale == 12);
  CHECK(spec.layers[0].branch_factor == 0.7f);
  CHECK(spec.logits_scale == 0.5f);
  const ModelSpec experts = described("MiniCPMForCausalLM", R"({"num_experts": 3})");
  CHECK(weight_named(experts, "model.layers.0.mlp.ws").shape == std::vector<int64_t>{3, 48, 16});
  CHECK(stored_names(experts, "model.layers.0.mlp.w2s").back() ==
        "model.layers.0.mlp.experts.2.w2.weight");
  CHECK(experts.layers[0].mlp.experts_per_token == 2);
}

TEST_CASE("openPangu Embedded takes windows in turn") {
  const ModelSpec spec = described("PanguEmbeddedForCausalLM",
                                   R"({"num_hidden_layers": 3, "bias": true,
                                  "interleaved_sliding_window": [8, null]})");
  CHECK(has_weight(spec, "model.layers.0.self_attn.o_proj.bias"));
  std::vector<int64_t> windows;
  for (const auto& layer : spec.layers) windows.push_back(layer.attention.window);
  CHECK(windows == std::vector<int64_t>{8, 0, 8});
  CHECK_THROWS_WITH(
      described("PanguEmbeddedForCausalLM", R"({"interleaved_sliding_window": ["8"]})"),
      Catch::Contains("interleaved_sliding_window"));
  CHECK_THROWS_WITH(described("PanguEmbeddedForCausalLM", R"({"interleaved_sliding_window": []})"),
                    Catch::Contains("interleaved_sliding_window"));
  CHECK_THROWS_WITH(described("PanguEmbeddedForCausalLM", R"({"is_causal": false})"),
                    Catch::Contains("is_causal"));
}

TEST_CASE("Qwen 1 states the width of gate and up together, and stores the gate as w2") {
  const ModelSpec spec = described("QWenLMHeadModel", R"({"rotary_emb_base": 500})");
  CHECK(stored_names(spec, "transformer.h.0.mlp.gate_up_proj.weight") ==
        TensorNames{"transformer.h.0.mlp.w2.weight", "transformer.h.0.mlp.w1.weight"});
  CHECK(spec.layers[0].mlp.intermediate == 12);
  CHECK(spec.layers[0].attention.kv_heads == 4);
  CHECK(has_weight(spec, "transformer.h.0.attn.c_attn.bias"));
  CHECK_FALSE(has_weight(spec, "transformer.h.0.attn.c_proj.bias"));
  CHECK(spec.ropes[0].table.inverse_frequencies[1] == Approx(1 / std::sqrt(500.0)));
}

TEST_CASE("ChatGLM") {
  const char* config = R"({"model_type": "chatglm", "vocab_size": null, "padded_vocab_size": 96,
      "multi_query_attention": true, "multi_query_group_num": 2, "head_dim": null,
      "ffn_hidden_size": 24, "intermediate_size": null, "add_qkv_bias": true, "rope_ratio": 2})";
  const ModelSpec spec = described("ChatGLMModel", config);
  CHECK(spec.vocab_size == 96);
  CHECK(stored_names(spec, "transformer.embedding.weight") ==
        TensorNames{"transformer.embedding.word_embeddings.weight"});
  CHECK(weight_named(spec, "transformer.encoder.layers.0.self_attention.query_key_value.bias")
            .shape == std::vector<int64_t>{32});
  CHECK_FALSE(has_weight(spec, "transformer.encoder.layers.0.self_attention.dense.bias"));
  CHECK(weight_named(spec, "transformer.encoder.layers.0.mlp.dense_h_to_4h.weight")
            .parts[1]
            .first_row == 24);
  CHECK(stored_names(spec, "lm_head.weight") == TensorNames{"transformer.output_layer.weight"});
  CHECK(spec.ropes[0].rotary_dim == 2);
  CHECK(spec.layers[0].attention.rope_pairs == model::RopePairs::neighbours);
  CHECK(spec.layers[0].placement == model::NormPlacement::pre);
  Json other = Json::parse(config);
  other.merge_patch({{"rmsnorm", false},
                     {"add_bias_linear", true},
                     {"apply_residual_connection_post_layernorm", true}});
  const ModelSpec changed = described("ChatGLMForConditionalGeneration", other.dump().c_str());
  CHECK(changed.layers[0].placement == model::NormPlacement::residual);
  CHECK(has_weight(changed, "transformer.encoder.final_layernorm.bias"));
  CHECK(has_weight(changed, "transformer.encoder.layers.0.mlp.dense_4h_to_h.bias"));
  other["multi_query_group_num"] = 3;
  CHECK_THROWS_WITH(described("ChatGLMModel", other.dump().c_str()),
                    Catch::Contains("multi_query_group_num"));
}

TEST_CASE("Baichuan: RoPE or ALiBi by the hidden size, a head of unit rows by the vocabulary") {
  const ModelSpec large = described("BaichuanForCausalLM");
  CHECK(large.ropes.empty());
  CHECK(large.layers[0].attention.alibi.slopes != model::kNoWeight);
  CHECK(stored_names(large, "model.layers.0.self_attn.W_pack.weight") ==
        TensorNames(3, "model.layers.0.self_attn.W_pack.weight"));
  CHECK(described("BaiChuanForCausalLM").ropes.size() == 1);
  const ModelSpec small =
      described("BaichuanForCausalLM",
                R"({"hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 125696})");
  CHECK(small.layers[0].attention.alibi.slopes == model::kNoWeight);
  const auto mapping = [](const ModelSpec& spec) {
    return spec.weight(spec.head).parts[0].mapping;
  };
  CHECK(mapping(small) == model::Mapping::unit_rows);
  CHECK(mapping(large) == model::Mapping::none);
  CHECK(small.vllm.refused.empty());
  CHECK_THAT(large.vllm.refused, Catch::Contains("vocabulary"));  // 100 tokens
}

TEST_CASE("RNJ-1 sees everything; its chunks are not computed") {
  const ModelSpec spec = described("Rnj1ForCausalLM", R"({"model_type": "gemma3_text",
      "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16,
      "final_logit_softcapping": 30, "attn_logit_softcapping": 50, "sliding_window": 8})");
  CHECK(spec.head == spec.embedding);
  CHECK(spec.layers[0].attention.window == 0);
  CHECK(spec.layers[0].attention.scale == 0.25f);
  CHECK(spec.layers[0].attention.soft_cap == 0);
  CHECK(spec.final_soft_cap == 30);
  CHECK(spec.layers[0].attention_norm.weight_offset == 1);
  CHECK_THROWS_WITH(described("Rnj1ForCausalLM", R"({"layer_types": ["chunked_attention"]})"),
                    Catch::Contains("layer_types"));
}

TEST_CASE("PLaMo 3 stores what is added to its norms, and has a RoPE for windows") {
  const ModelSpec spec =
      described("Plamo3ForCausalLM", R"({"num_hidden_layers": 3, "sliding_window_pattern": 3,
          "interleaved_sliding_window": [8, 8, null], "rope_local_theta": 100})");
  const auto offset = [&](const char* norm) { return weight_named(spec, norm).parts[0].offset; };
  CHECK(offset("model.layers.layers.0.pre_mixer_norm.weight") == 1);
  CHECK(offset("model.layers.layers.0.mixer.q_norm.weight") == 1);
  CHECK(offset("model.layers.layers.0.post_mixer_norm.weight") == 0.2f);
  CHECK(offset("model.layers.layers.0.post_mlp_norm.weight") == Approx(std::pow(5, -1.5)));
  CHECK(offset("model.norm.weight") == 1);
  std::vector<int64_t> windows;
  std::vector<int32_t> ropes;
  for (const auto& layer : spec.layers) {
    windows.push_back(layer.attention.window);
    ropes.push_back(layer.attention.rope);
  }
  CHECK(windows == std::vector<int64_t>{8, 8, 0});
  CHECK(ropes == std::vector<int32_t>{1, 1, 0});
  CHECK(spec.ropes[1].table.inverse_frequencies[1] == Approx(0.1));
}

TEST_CASE("classes of vLLM that are Llama's or Qwen 2's") {
  for (const char* architecture : {"AquilaForCausalLM", "AquilaModel", "IQuestCoderForCausalLM",
                                   "TeleChat3ForCausalLM", "XverseForCausalLM"}) {
    INFO(architecture);
    CHECK(stored_names(described(architecture), "model.layers.0.self_attn.qkv_proj.weight")[2] ==
          "model.layers.0.self_attn.v_proj.weight");
  }
  CHECK(described("MiMoForCausalLM").ignored_prefixes == TensorNames{"model.mtp_layers."});
  const ModelSpec scaled = described(
      "TeleFLMForCausalLM", R"({"use_mup": true, "output_mult": 16, "mup_scale_factor": 40})");
  CHECK(scaled.logits_scale == 0.4f);
  CHECK_THROWS_WITH(described("TeleFLMForCausalLM", R"({"use_mup": true, "input_mult": 2})"),
                    Catch::Contains("input_mult"));
}
