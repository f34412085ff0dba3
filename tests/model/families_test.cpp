// Weight tables of the families: names in the order of vLLM's state dict, sources, splits.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using model::ModelSpec;
using model::Split;
using model::WeightSpec;
using plimsoll::testing::tiny_config;
using plimsoll::testing::weight_named;

namespace {

ModelSpec tiny(const char* architecture, const char* changes = "{}") {
  return model::make_model_spec(tiny_config(architecture, Json::parse(changes)));
}

std::vector<std::string> names(const ModelSpec& spec) {
  std::vector<std::string> result;
  for (const WeightSpec& weight : spec.weights) result.push_back(weight.name);
  return result;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("Llama") {
  const ModelSpec spec = tiny("LlamaForCausalLM");
  CHECK(names(spec) ==
        Names{"model.embed_tokens.weight", "model.layers.0.self_attn.qkv_proj.weight",
              "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.gate_up_proj.weight",
              "model.layers.0.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight",
              "model.layers.0.post_attention_layernorm.weight", "model.norm.weight",
              "lm_head.weight"});
  const WeightSpec& qkv = spec.weight(spec.layers[0].attention.qkv.weight);
  CHECK(qkv.shape == std::vector<int64_t>{32, 16});
  CHECK(qkv.split == Split::qkv);
  REQUIRE(qkv.parts.size() == 3);
  CHECK(qkv.parts[1].tensor == "model.layers.0.self_attn.k_proj.weight");
  CHECK(qkv.parts[1].stored_shape == std::vector<int64_t>{8, 16});
  CHECK(weight_named(spec, "model.layers.0.mlp.gate_up_proj.weight").split == Split::merged_column);
  CHECK(weight_named(spec, "model.layers.0.mlp.down_proj.weight").split == Split::row);
  CHECK(spec.weight(spec.embedding).use == model::WeightUse::embedding);
  CHECK(spec.weight(spec.head).split == Split::vocabulary);
  CHECK(spec.layers[0].attention.scale == 0.5f);
}

TEST_CASE("Llama with biases and a tied head") {
  const ModelSpec spec =
      tiny("LlamaForCausalLM",
           R"({"attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true})");
  CHECK(names(spec).front() == "lm_head.weight");
  CHECK(names(spec).back() == "model.norm.weight");
  CHECK(spec.head == spec.embedding);
  CHECK(spec.weight(spec.embedding).use == model::WeightUse::linear);
  CHECK(spec.weight(spec.embedding).parts[0].tensor == "model.embed_tokens.weight");
  CHECK(weight_named(spec, "model.layers.0.self_attn.qkv_proj.bias").split == Split::qkv);
  CHECK(weight_named(spec, "model.layers.0.self_attn.o_proj.bias").split == Split::replicated);
  CHECK(weight_named(spec, "model.layers.0.mlp.gate_up_proj.bias").shape ==
        std::vector<int64_t>{48});
}

TEST_CASE(
    "Qwen windows: none unless asked for, then from max_window_layers on, or by layer_types") {
  const auto windows = [](const char* changes) {
    Json config = Json::parse(changes);
    config["num_hidden_layers"] = 3;
    std::vector<int64_t> result;
    for (const auto& layer : tiny("Qwen2ForCausalLM", config.dump().c_str()).layers) {
      result.push_back(layer.attention.window);
    }
    return result;
  };
  using Windows = std::vector<int64_t>;
  CHECK(windows(R"({"sliding_window": 8, "max_window_layers": 1})") == Windows{0, 0, 0});
  CHECK(windows(R"({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1})") ==
        Windows{0, 8, 8});
  CHECK(windows(R"({"use_sliding_window": true, "sliding_window": 8,
                    "layer_types": ["sliding_attention", "full_attention", "full_attention"]})") ==
        Windows{8, 0, 0});
  // transformers' default is 28 layers without a window.
  Json deep =
      tiny_config("Qwen2ForCausalLM",
                  {{"num_hidden_layers", 30}, {"use_sliding_window", true}, {"sliding_window", 8}});
  const ModelSpec spec = model::make_model_spec(deep);
  for (size_t layer = 0; layer < spec.layers.size(); ++layer) {
    INFO("layer " << layer);
    CHECK(spec.layers[layer].attention.window == (layer < 28 ? 0 : 8));
  }
  deep["max_window_layers"] = 0;
  CHECK(model::make_model_spec(deep).layers.front().attention.window == 8);
  CHECK_THROWS_WITH(windows(R"({"layer_types": ["full_attention"]})"),
                    Catch::Contains("a list of 3 layers"));
  CHECK_THROWS_WITH(
      windows(R"({"layer_types": ["linear_attention", "full_attention", "full_attention"]})"),
      Catch::Contains("sliding_attention and full_attention alone"));
}

TEST_CASE("Qwen3-MoE: experts where decoder_sparse_step and mlp_only_layers leave them") {
  const ModelSpec spec = tiny("Qwen3MoeForCausalLM",
                              R"({"num_hidden_layers": 4, "decoder_sparse_step": 2,
                                  "mlp_only_layers": [3], "num_experts": 3,
                                  "num_experts_per_tok": 2, "moe_intermediate_size": 5})");
  std::vector<bool> sparse;
  for (const auto& layer : spec.layers) sparse.push_back(layer.mlp.kind == model::MlpKind::experts);
  CHECK(sparse == std::vector<bool>{false, true, false, false});
  const WeightSpec& up = weight_named(spec, "model.layers.1.mlp.experts.routed_experts.w13_weight");
  CHECK(up.shape == std::vector<int64_t>{3, 10, 16});
  CHECK(up.parts.size() == 6);
  CHECK(up.parts[3].tensor == "model.layers.1.mlp.experts.1.up_proj.weight");
  CHECK(weight_named(spec, "model.layers.1.mlp.experts.routed_experts.w2_weight").shape ==
        std::vector<int64_t>{3, 16, 5});
  CHECK(weight_named(spec, "model.layers.1.mlp.experts.gate.weight").parts[0].tensor ==
        "model.layers.1.mlp.gate.weight");
}

TEST_CASE("num_experts and num_local_experts are one key") {
  for (const char* key : {"num_experts", "num_local_experts"}) {
    for (const char* architecture : {"MixtralForCausalLM", "Qwen3MoeForCausalLM"}) {
      const Json changes = {{key, 3}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}};
      CHECK(tiny(architecture, changes.dump().c_str()).layers[0].mlp.experts == 3);
    }
  }
}

TEST_CASE("Gemma: norms around both parts, (1 + w), scaled embeddings") {
  const ModelSpec spec = tiny("Gemma3ForCausalLM", R"({"query_pre_attn_scalar": 64})");
  CHECK(spec.layers[0].placement == model::NormPlacement::sandwich);
  CHECK(spec.layers[0].mlp_post_norm.present);
  CHECK(spec.layers[0].attention.q_norm.weight_offset == 1);
  CHECK(spec.layers[0].attention.scale == 0.125f);
  CHECK(spec.embedding_scale == 4);
  CHECK(spec.layers[0].mlp.activation == model::Activation::gelu_tanh);
  CHECK_THROWS_WITH(tiny("Gemma3ForCausalLM", R"({"use_bidirectional_attention": true})"),
                    Catch::Contains("use_bidirectional_attention"));
}

TEST_CASE("Phi-3 cuts fused matrices, InternLM2 takes groups apart") {
  const auto phi = tiny("Phi3ForCausalLM").weights[1];
  REQUIRE(phi.parts.size() == 3);
  CHECK(phi.parts[0].tensor == phi.parts[2].tensor);
  CHECK(phi.parts[2].first_row == 24);
  CHECK(phi.parts[2].rows() == 8);
  // 4 heads of 4 rows over 2 KV heads: a group is 8 query rows, 4 k rows, 4 v rows.
  const auto intern = tiny("InternLM2ForCausalLM", R"({"bias": false})").weights[1];
  CHECK(intern.name == "model.layers.0.attention.wqkv.weight");
  REQUIRE(intern.parts.size() == 3);
  CHECK(intern.parts[0].block_rows == 8);
  CHECK(intern.parts[1].first_row == 8);
  CHECK(intern.parts[2].first_row == 12);
  for (const auto& part : intern.parts) {
    CHECK(part.block_stride == 16);
    CHECK(part.block_count == 2);
    CHECK(part.stored_shape == std::vector<int64_t>{32, 16});
  }
}

TEST_CASE("OPT after the sums, with narrower embeddings") {
  const ModelSpec spec =
      tiny("OPTForCausalLM", R"({"do_layer_norm_before": false, "word_embed_proj_dim": 8,
                                 "ffn_dim": 24, "num_key_value_heads": 4})");
  CHECK(names(spec) == Names{"lm_head.weight", "model.decoder.embed_positions.weight",
                             "model.decoder.project_out.weight", "model.decoder.project_in.weight",
                             "model.decoder.layers.0.self_attn.qkv_proj.weight",
                             "model.decoder.layers.0.self_attn.qkv_proj.bias",
                             "model.decoder.layers.0.self_attn.out_proj.weight",
                             "model.decoder.layers.0.self_attn.out_proj.bias",
                             "model.decoder.layers.0.self_attn_layer_norm.weight",
                             "model.decoder.layers.0.self_attn_layer_norm.bias",
                             "model.decoder.layers.0.fc1.weight", "model.decoder.layers.0.fc1.bias",
                             "model.decoder.layers.0.fc2.weight", "model.decoder.layers.0.fc2.bias",
                             "model.decoder.layers.0.final_layer_norm.weight",
                             "model.decoder.layers.0.final_layer_norm.bias"});
  CHECK(spec.layers[0].placement == model::NormPlacement::post);
  CHECK_FALSE(spec.final_norm.present);
  CHECK(weight_named(spec, "model.decoder.embed_positions.weight").rows() == 130);
  const ModelSpec bare = tiny("OPTForCausalLM", R"({"layer_norm_elementwise_affine": false,
                                                    "enable_bias": false})");
  CHECK(bare.final_norm.present);
  CHECK(bare.final_norm.weight == model::kNoWeight);
  CHECK(bare.layers[0].attention.qkv.bias == model::kNoWeight);
}

TEST_CASE("GPT-2 reads transposed matrices") {
  const ModelSpec spec = tiny("GPT2LMHeadModel", R"({"num_hidden_layers": 2,
                                                     "scale_attn_by_inverse_layer_idx": true})");
  const WeightSpec& qkv = spec.weight(spec.layers[0].attention.qkv.weight);
  CHECK(qkv.shape == std::vector<int64_t>{48, 16});
  CHECK(qkv.parts[1].transposed);
  CHECK(qkv.parts[1].stored_shape == std::vector<int64_t>{16, 48});
  CHECK(qkv.parts[1].first_row == 16);
  CHECK(spec.layers[1].attention.scale == 0.25f);
  CHECK(spec.layers[0].attention.rope == -1);
  CHECK(spec.tensor_prefixes.front() == std::pair<std::string, std::string>{"transformer.", ""});
}

TEST_CASE("heads of OPT and GPT-2 divide the hidden size, whatever else a config says") {
  for (const char* architecture : {"OPTForCausalLM", "GPT2LMHeadModel"}) {
    const ModelSpec spec = tiny(architecture, R"({"head_dim": 64, "num_key_value_heads": 1})");
    CHECK(spec.layers[0].attention.head_dim == 4);
    CHECK(spec.layers[0].attention.kv_heads == 4);
    CHECK_THROWS_WITH(tiny(architecture, R"({"num_attention_heads": 3})"),
                      Catch::Contains("a divisor of hidden_size (16)"));
  }
}

TEST_CASE("EXAONE's windows are told by letters, by a period or layer by layer") {
  for (const char* architecture : {"Exaone4ForCausalLM", "ExaoneMoEForCausalLM"}) {
    INFO(architecture);
    for (const char* pattern : {"\"LLLG\"", "4"}) {
      const ModelSpec spec = tiny(architecture, (R"({"num_hidden_layers": 5, "sliding_window": 48,
                                  "sliding_window_pattern": )" +
                                                 std::string(pattern) + "}")
                                                    .c_str());
      std::vector<int64_t> windows;
      for (const model::LayerSpec& layer : spec.layers) windows.push_back(layer.attention.window);
      CHECK(windows == std::vector<int64_t>{48, 48, 48, 0, 48});
      CHECK(spec.layers[3].attention.rope == -1);
    }
    CHECK_THROWS_WITH(tiny(architecture, R"({"sliding_window_pattern": "LXLG"})"),
                      Catch::Contains("letters L and G"));
  }
}

TEST_CASE("LongCat's latents are scaled unless the config says they are not") {
  const auto factor = [](const char* changes) {
    const ModelSpec spec = tiny("LongcatFlashForCausalLM", changes);
    const model::Norm& norm = spec.layers[0].attention.latent.kv_norm;
    return spec.weight(norm.weight).parts.front().factor;
  };
  CHECK(factor(R"({"kv_lora_rank": 4})") == 2);
  CHECK(factor(R"({"kv_lora_rank": 4, "mla_scale_kv_lora": true})") == 2);
  CHECK(factor(R"({"kv_lora_rank": 4, "mla_scale_kv_lora": false})") == 1);
}

TEST_CASE("LFM2's own key says whether its head is the token table") {
  const auto tied = [](const char* architecture, const char* changes) {
    const ModelSpec spec = tiny(architecture, changes);
    return spec.head == spec.embedding;
  };
  for (const char* architecture : {"Lfm2ForCausalLM", "Lfm2MoeForCausalLM"}) {
    INFO(architecture);
    CHECK(tied(architecture, "{}"));
    CHECK_FALSE(tied(architecture, R"({"tie_embedding": false, "tie_word_embeddings": true})"));
    CHECK(tied(architecture, R"({"tie_embedding": true, "tie_word_embeddings": false})"));
  }
}

TEST_CASE("Gemma 4's last layers read the keys of the last one before them of their kind") {
  const char* const six =
      R"({"num_hidden_layers": 6, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 2,
          "global_head_dim": 4, "use_double_wide_mlp": true,
          "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
                          "sliding_attention", "sliding_attention", "full_attention"]})";
  const ModelSpec spec = tiny("Gemma4ForCausalLM", six);
  std::vector<int32_t> sources;
  for (const model::LayerSpec& layer : spec.layers) sources.push_back(layer.attention.keys_of);
  CHECK(sources == std::vector<int32_t>{-1, -1, -1, -1, 3, 2});
  CHECK(spec.layers[3].mlp.intermediate == 24);
  CHECK(spec.layers[5].mlp.intermediate == 48);
  CHECK(weight_named(spec, "model.cross_decoder.decoder_layers.1.self_attn.q_proj.weight").shape ==
        std::vector<int64_t>{16, 16});
  CHECK(weight_named(spec, "model.embed_tokens_per_layer.weight").shape ==
        std::vector<int64_t>{100, 12});
  Json without = Json::parse(six);
  without["num_kv_shared_layers"] = 4;
  CHECK_THROWS_WITH(tiny("Gemma4ForCausalLM", without.dump().c_str()),
                    Catch::Contains("layers before number 2 of the kinds"));
}

TEST_CASE("Griffin's kinds of layers come in turn, its heads' gates from stacked tensors") {
  const ModelSpec spec = tiny("RecurrentGemmaForCausalLM", R"({"num_hidden_layers": 4})");
  CHECK(spec.layers[1].recurrent.has_value());
  CHECK(spec.layers[2].has_attention());
  CHECK(spec.layers[3].recurrent->head_gates.size() == 4);
  CHECK(spec.stacked_tensors.size() == 12);
  CHECK(spec.layers[0].mlp.intermediate == 12);
  CHECK_THROWS_WITH(tiny("RecurrentGemmaForCausalLM", R"({"block_types": ["rnn"]})"),
                    Catch::Contains("recurrent and attention alone"));
  CHECK_THROWS_WITH(tiny("RecurrentGemmaForCausalLM", R"({"lru_width": 18})"),
                    Catch::Contains("a multiple of num_attention_heads"));
}

TEST_CASE("Zamba 2's layers share a block and have adapters of their own") {
  const char* const four =
      R"({"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
          "adapter_rank": 2, "use_shared_attention_adapter": true})";
  const ModelSpec spec = tiny("Zamba2ForCausalLM", four);
  const model::LayerSpec &first = spec.layers[1], &second = spec.layers[3];
  CHECK(first.attention.qkv.weight == second.attention.qkv.weight);
  CHECK(first.attention.q_adapter.up.weight != second.attention.q_adapter.up.weight);
  CHECK(first.shared_block->mlp.down.weight == second.shared_block->mlp.down.weight);
  CHECK(first.shared_block->out.weight != second.shared_block->out.weight);
  CHECK(first.attention.head_dim == 8);
  CHECK_FALSE(spec.layers[0].has_attention());
  CHECK_THROWS_WITH(tiny("Zamba2ForCausalLM"), Catch::Contains("a list of mamba and hybrid"));
}

TEST_CASE("slopes of ALiBi: of eight heads the powers of 1/2, of further ones those between") {
  const auto slopes = [](const char* architecture, int heads, const Json& more = Json::object()) {
    Json config = tiny_config(architecture, {{"num_attention_heads", heads},
                                             {"num_key_value_heads", heads},
                                             {"hidden_size", heads * 4},
                                             {"n_heads", heads},
                                             {"d_model", heads * 4}});
    config.merge_patch(more);
    const ModelSpec spec = model::make_model_spec(config);
    return spec.weight(spec.layers[0].attention.alibi.slopes).constant;
  };
  using Slopes = std::vector<float>;
  // Powers of two of whole numbers are exact; 2^-0.5 and its halves are rounded once.
  const auto root = static_cast<float>(std::sqrt(0.5));
  const Slopes eight = {1 / 2.f,  1 / 4.f,  1 / 8.f,   1 / 16.f,
                        1 / 32.f, 1 / 64.f, 1 / 128.f, 1 / 256.f};
  Slopes twelve = eight;
  twelve.insert(twelve.end(), {root, root / 2, root / 4, root / 8});
  for (const char* architecture : {"MPTForCausalLM", "BloomForCausalLM"}) {
    INFO(architecture);
    CHECK(slopes(architecture, 8) == eight);
    CHECK(slopes(architecture, 12) == twelve);
    CHECK(slopes(architecture, 1) == Slopes{1 / 256.f});
    CHECK(slopes(architecture, 3) == Slopes{1 / 16.f, 1 / 256.f, 1 / 4.f});
  }
  // Falcon's are of bfloat16, which has 8 bits of 1.01101010000010...
  Slopes rounded = eight;
  const float short_root = 0b10110101 / 256.f;
  rounded.insert(rounded.end(), {short_root, short_root / 2, short_root / 4, short_root / 8});
  CHECK(slopes("FalconForCausalLM", 12, {{"alibi", true}}) == rounded);
  // The last of MPT's is told; its steps are twice as large then.
  const Json larger = {{"attn_config", {{"alibi_bias_max", 16}}}};
  CHECK(slopes("MPTForCausalLM", 3, larger) == Slopes{1 / 256.f, 1 / 65536.f, 1 / 16.f});
}

TEST_CASE("the largest tables are made") {
  const Json config = {{"architectures", {"Qwen3MoeForCausalLM"}},
                       {"num_hidden_layers", 94},
                       {"hidden_size", 4096},
                       {"moe_intermediate_size", 1536}};
  CHECK(model::make_model_spec(config).weights.size() > 700);
}
