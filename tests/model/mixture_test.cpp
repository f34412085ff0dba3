#include "model/mixture.h"

#include <catch2/catch.hpp>

#include "model/config.h"

using namespace plimsoll;
using Catch::Contains;

namespace {

/// A small config of a mixture; `changes` are merged into it.
Json mixture_config(const char* architecture, const char* changes = "{}") {
  Json config = {{"architectures", {architecture}},
                 {"vocab_size", 100},
                 {"vocab_size_per_layer_input", 100},
                 {"hidden_size", 32},
                 {"intermediate_size", 48},
                 {"moe_intermediate_size", 16},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 8},
                 {"num_experts_per_tok", 2},
                 {"max_position_embeddings", 64}};
  config.merge_patch(Json::parse(changes));
  return config;
}

model::ModelSpec spec_of(const char* architecture, const char* changes) {
  return model::make_model_spec(mixture_config(architecture, changes));
}

std::string sparse_layers(const model::ModelSpec& spec) {
  std::string layers;
  for (const model::LayerSpec& layer : spec.layers) {
    layers += layer.mlp.kind == model::MlpKind::experts ? 'x' : '.';
  }
  return layers;
}

}  // namespace

TEST_CASE("what a config leaves out is as its class in transformers has it") {
  const char* routed = R"({"num_experts": 8})";
  const char* latents = R"({"n_routed_experts": 8, "kv_lora_rank": 8, "q_lora_rank": 8,
                            "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
                            "n_group": 1, "topk_group": 1})";
  const auto factor = [](const char* architecture, const char* sizes) {
    return spec_of(architecture, sizes).layers.back().mlp.router.factor;
  };
  CHECK(factor("DeepseekV3ForCausalLM", latents) == 2.5f);
  CHECK(factor("DeepseekV32ForCausalLM", latents) == 2.5f);
  CHECK(factor("Glm4MoeLiteForCausalLM", latents) == 1.8f);
  CHECK(factor("Glm4MoeForCausalLM", routed) == 1);
  CHECK(factor("ExaoneMoeForCausalLM", routed) == 2.5f);
  CHECK(factor("HYV3ForCausalLM", routed) == 2.826f);
  const char* no_size = R"({"num_experts": 8, "head_dim": null})";
  CHECK(spec_of("Glm4MoeForCausalLM", no_size).layers.front().attention.head_dim == 8);
  CHECK(spec_of("Jais2ForCausalLM", no_size).layers.front().attention.head_dim == 8);
  CHECK_FALSE(spec_of("Dots1ForCausalLM", R"({"n_routed_experts": 4, "num_experts_per_tok": 2})")
                  .layers.back()
                  .mlp.router.normalize);
  CHECK(spec_of("FlexOlmoForCausalLM", "{}").layers.front().mlp.experts_per_token == 2);
  CHECK(spec_of("FlexOlmoForCausalLM", R"({"num_experts_per_tok": null})")
            .layers.front()
            .mlp.experts_per_token == 5);
}

TEST_CASE("configs as transformers 5 saves them mean what the published ones mean") {
  const char* sizes = R"({"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8,
                          "shared_intermediate_size": 48, "num_local_experts": 0,
                          "layer_types": ["linear_attention", "full_attention",
                                          "linear_attention", "full_attention"]})";
  const model::ModelSpec hybrid = spec_of("GraniteMoeHybridForCausalLM", sizes);
  CHECK(hybrid.layers[0].recurrent.has_value());
  CHECK_FALSE(hybrid.layers[1].recurrent.has_value());
  CHECK(hybrid.layers[1].has_attention());

  const model::ModelSpec gemma =
      spec_of("Gemma4ForCausalLM", R"({"per_layer_config": {"1": {"head_dim": 16}},
               "layer_types": ["sliding_attention", "full_attention",
                               "sliding_attention", "full_attention"]})");
  CHECK(gemma.layers[0].attention.head_dim == 8);
  CHECK(gemma.layers[3].attention.head_dim == 16);
  CHECK_THROWS_WITH(
      spec_of("Gemma4ForCausalLM",
              R"({"per_layer_config": {"1": {"head_dim": 16}, "3": {"head_dim": 24}}})"),
      Contains("per_layer_config") && Contains("the same of each full layer"));

  // MiMo's have no keys of the windowed layers' heads.
  const model::ModelSpec mimo = spec_of(
      "MiMoV2FlashForCausalLM",
      R"({"n_routed_experts": 8, "num_key_value_heads": 1, "sliding_window": 16, "v_head_dim": 8,
                  "layer_types": ["sliding_attention", "full_attention",
                                  "sliding_attention", "full_attention"],
                  "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]})");
  CHECK(mimo.layers[0].attention.kv_heads == 2);
  CHECK(mimo.layers[0].attention.sinks != model::kNoWeight);
  CHECK(mimo.layers[1].attention.kv_heads == 1);
  CHECK(mimo.layers[1].attention.sinks == model::kNoWeight);
  CHECK(mimo.layers[2].attention.window == 16);
  CHECK(mimo.layers[1].mlp.kind == model::MlpKind::gated);
  CHECK(mimo.layers[2].mlp.kind == model::MlpKind::experts);
  CHECK(mimo.layers[0].attention.value_factor == 0.707f);
  const auto mimo_window = [](const char* changes) {
    Json config =
        mixture_config("MiMoV2FlashForCausalLM", R"({"n_routed_experts": 8, "v_head_dim": 8})");
    config.update(Json::parse(changes));
    return model::make_model_spec(config).layers[1].attention.window;
  };
  CHECK(mimo_window(R"({"sliding_window": 16, "sliding_window_size": 16})") == 17);
  CHECK(mimo_window("{}") == 129);

  const char* experts = R"({"num_local_experts": 8, "num_experts": 8})";
  CHECK(spec_of("PhimoeForCausalLM", experts).weights.size() ==
        spec_of("PhiMoEForCausalLM", experts).weights.size());
  CHECK(spec_of("ExaoneMoeForCausalLM", experts).weights.size() ==
        spec_of("ExaoneMoEForCausalLM", experts).weights.size());
}

TEST_CASE("attention_bias gives biases that run reads, and shards have them as vLLM's class has") {
  const auto kept = [](const char* architecture, const char* sizes) {
    Json changes = Json::parse(sizes);
    changes["attention_bias"] = true;
    const model::ModelSpec spec = spec_of(architecture, changes.dump().c_str());
    for (const model::WeightSpec& weight : spec.weights) {
      if (weight.parts.front().tensor == "model.layers.1.self_attn.o_proj.bias") return weight.kept;
    }
    FAIL(architecture);
    return model::Kept::in_vllm;
  };
  const char* latents = R"({"n_routed_experts": 8, "kv_lora_rank": 8, "q_lora_rank": 8,
                            "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8})";
  CHECK(kept("DeepseekV2ForCausalLM", latents) == model::Kept::in_run);
  CHECK(kept("DeepseekV3ForCausalLM", latents) == model::Kept::in_run);
  CHECK(kept("Glm4MoeLiteForCausalLM", latents) == model::Kept::in_run);
  CHECK(kept("MiniCPM3ForCausalLM", latents) == model::Kept::in_run);
  CHECK(kept("AfmoeForCausalLM", R"({"num_experts": 8})") == model::Kept::in_run);
  CHECK(kept("HYV3ForCausalLM", R"({"num_experts": 8})") == model::Kept::in_run);
  CHECK(kept("MellumForCausalLM", R"({"num_experts": 8})") == model::Kept::in_model);
}

TEST_CASE("Llama 4's chunks are told by layer_types, its rotation by no_rope_layers") {
  const model::ModelSpec spec = spec_of(
      "Llama4ForCausalLM",
      R"({"num_local_experts": 8, "attention_chunk_size": 16, "no_rope_layers": [1, 1, 0, 0],
                  "layer_types": ["full_attention", "chunked_attention",
                                  "full_attention", "chunked_attention"]})");
  const auto& [first, second, third, fourth] =
      std::tie(spec.layers[0].attention, spec.layers[1].attention, spec.layers[2].attention,
               spec.layers[3].attention);
  CHECK((first.window == 0 && first.rope == 0 && first.q_norm.present));
  CHECK((second.window == 16 && second.rope == 0));
  CHECK((third.window == 0 && third.rope == -1 && third.query_growth.beta > 0));
  CHECK((fourth.window == 16 && fourth.rope == -1 && !fourth.q_norm.present));
  CHECK(fourth.window_kind == model::WindowKind::chunk);
}

TEST_CASE("which layers have experts each config says in its own way") {
  CHECK(sparse_layers(spec_of("Glm4MoeForCausalLM",
                              R"({"n_routed_experts": 8, "first_k_dense_replace": 3})")) == "...x");
  CHECK(sparse_layers(spec_of(
            "HYV3ForCausalLM",
            R"({"num_experts": 8, "mlp_layer_types": ["dense", "sparse", "dense", "sparse"]})")) ==
        ".x.x");
  CHECK(sparse_layers(spec_of("Ernie4_5_MoeForCausalLM",
                              R"({"moe_num_experts": 8, "moe_layer_start_index": 1,
                                  "moe_layer_end_index": 2})")) == ".xx.");
  CHECK(sparse_layers(spec_of("Ernie4_5_MoeForCausalLM",
                              R"({"moe_num_experts": 8, "moe_layer_start_index": 0,
                                  "moe_layer_end_index": -1, "moe_layer_interval": 2})")) ==
        ".x.x");
  CHECK(sparse_layers(spec_of("Qwen2MoeForCausalLM",
                              R"({"num_experts": 8, "mlp_only_layers": [0]})")) == ".xxx");
  CHECK(sparse_layers(spec_of("DeepseekV2ForCausalLM",
                              R"({"n_routed_experts": 8, "kv_lora_rank": 8, "q_lora_rank": null,
                                  "moe_layer_freq": 2, "first_k_dense_replace": 1})")) == "..x.");
}

TEST_CASE("routers that contradict their experts are refused by key") {
  struct Row {
    const char* changes;
    const char* says;
  };
  for (const Row& row : {
           Row{R"({"n_routed_experts": 8, "n_group": 3})", R"("n_group" is 3; expected a divisor)"},
           Row{R"({"n_routed_experts": 8, "n_group": 8, "topk_group": 1})", R"("topk_group" is 1)"},
           Row{R"({"n_routed_experts": 8, "topk_group": 2})", R"("topk_group" is 2)"},
           Row{R"({"n_routed_experts": 1})", R"("num_experts_per_tok" is 2)"},
       }) {
    INFO(row.changes);
    CHECK_THROWS_WITH(spec_of("Glm4MoeForCausalLM", row.changes), Contains(row.says));
  }
}

TEST_CASE("lists of layers with experts are refused by what is wrong, where a class reads them") {
  const char* few = R"({"num_experts": 8, "mlp_layer_types": ["sparse"]})";
  const char* unknown = R"({"num_experts": 8, "mlp_layer_types": ["sparse", "x", "x", "x"]})";
  for (const char* architecture : {"HYV3ForCausalLM", "ExaoneMoeForCausalLM"}) {
    INFO(architecture);
    CHECK_THROWS_WITH(spec_of(architecture, few), Contains("a list of 4 layers"));
    CHECK_THROWS_WITH(spec_of(architecture, unknown), Contains("sparse and dense alone"));
  }
  CHECK(sparse_layers(spec_of("Glm4MoeForCausalLM", few)) == ".xxx");  // which does not
}

TEST_CASE("layers that predict further tokens are no layers of the model") {
  const auto spec =
      spec_of("Glm4MoeForCausalLM", R"({"n_routed_experts": 8, "num_nextn_predict_layers": 2})");
  const std::vector<std::string> expected{"model.layers.4.", "model.layers.5."};
  CHECK(spec.ignored_prefixes == expected);
}

TEST_CASE("experts stored as one tensor are parts of it") {
  const auto spec = spec_of("GptOssForCausalLM",
                            R"({"num_local_experts": 3, "sliding_window": 16, "head_dim": 8})");
  const model::MlpSpec& mlp = spec.layers.front().mlp;
  const model::WeightSpec& up = spec.weight(mlp.up.weight);
  CHECK(up.name == "model.layers.0.mlp.experts.routed_experts.w13_weight");
  CHECK(up.rows_in_turn);
  CHECK(up.parts.size() == 3);
  CHECK(up.parts[2].tensor == "model.layers.0.mlp.experts.gate_up_proj[2]");
  CHECK(up.parts[2].transposed);
  CHECK(spec.weight(mlp.down.bias).shape == std::vector<int64_t>{3, 32});
  const model::StackedTensor& stack = spec.stacked_tensors.front();
  CHECK(stack.tensor == "model.layers.0.mlp.experts.gate_up_proj");
  CHECK(stack.stored_shape == std::vector<int64_t>{3, 32, 96});
}

TEST_CASE("latent attention expands to heads of both parts") {
  const auto spec = spec_of("DeepseekV3ForCausalLM",
                            R"({"n_routed_experts": 8, "kv_lora_rank": 8, "q_lora_rank": 6,
                                "qk_rope_head_dim": 4, "qk_nope_head_dim": 10, "v_head_dim": 12})");
  const model::AttentionSpec& attention = spec.layers.front().attention;
  CHECK(attention.head_dim == 14);
  CHECK(attention.value_dim == 12);
  CHECK(attention.kv_heads == 4);
  CHECK(spec.weight(attention.latent.kv_down.weight).rows() == 6 + 8 + 4);
  CHECK(spec.weight(attention.latent.kv_up.weight).rows() == 4 * (10 + 12));
  CHECK_THROWS_WITH(spec_of("DeepseekV3ForCausalLM",
                            R"({"kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 10,
                                "v_head_dim": 15})"),
                    Contains("\"v_head_dim\" is 15"));
}

namespace {

constexpr const char* kIndexed = R"({"n_routed_experts": 8, "kv_lora_rank": 8, "q_lora_rank": 8,
    "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "index_head_dim": 8,
    "num_hidden_layers": 8})";

std::string choosing_layers(const char* changes) {
  Json config = mixture_config("GlmMoeDsaForCausalLM", kIndexed);
  config.merge_patch(Json::parse(changes));
  const model::ModelSpec spec = model::make_model_spec(config);
  std::string layers;
  for (const model::LayerSpec& layer : spec.layers) {
    CHECK(layer.attention.indexer.most == 2048);
    const bool chooses = layer.attention.indexer.chooses();
    CHECK((layer.attention.indexer.q_up.weight != model::kNoWeight) == chooses);
    layers += chooses ? 'x' : '.';
  }
  return layers;
}

}  // namespace

TEST_CASE("which layers choose keys configs say by list, pattern or distance") {
  CHECK(choosing_layers("{}") == "xxxxxxxx");
  CHECK(choosing_layers(R"({"indexer_types": ["full", "shared", "full", "full", "shared",
                                              "shared", "shared", "full"]})") == "x.xx...x");
  CHECK(choosing_layers(R"({"index_topk_pattern": "FSFSSS"})") == "x.x...xx");
  CHECK(choosing_layers(R"({"index_topk_freq": 4, "index_skip_topk_offset": 3})") == "xxx...x.");
  CHECK(choosing_layers(R"({"index_topk_freq": 4})") == "xx...x..");
}

TEST_CASE("indexers that cannot be are refused by key") {
  for (const auto& [changes, says] : {
           std::pair{R"({"index_topk": 0})", R"("index_topk" is 0)"},
           std::pair{R"({"index_head_dim": 3})", R"("index_head_dim" is 3)"},
           std::pair{R"({"index_topk_pattern": "SF"})", R"("index_topk_pattern" is "SF")"},
           std::pair{R"({"index_topk_freq": 2, "index_skip_topk_offset": 0})",
                     R"("index_skip_topk_offset" is 0)"},
           std::pair{R"({"indexer_types": ["full"]})", "a list of 8 layers"},
           std::pair{R"({"indexer_types": ["full", "x", "x", "x", "x", "x", "x", "x"]})",
                     "full and shared alone"},
           std::pair{R"({"indexer_types": ["shared", "full", "full", "full", "full", "full",
                                           "full", "full"]})",
                     "a first layer that chooses keys itself"},
       }) {
    INFO(changes);
    CHECK_THROWS_WITH(choosing_layers(changes), Contains(says));
  }
  Json without_rank = mixture_config("GlmMoeDsaForCausalLM", kIndexed);
  without_rank["q_lora_rank"] = nullptr;
  CHECK_THROWS_WITH(model::make_model_spec(without_rank),
                    Contains(R"("q_lora_rank" is missing; expected a rank)"));
}
