// DeepSeek's first mixture, and latent attention: DeepSeek V2 to V3.2, GLM-4.7-Flash, GLM-5 and HY
// V4 with their experts, MiniCPM 3 without.
#include "model/families/mixtures/deepseek.h"

#include <algorithm>
#include <cmath>

#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

void read_latent_decoder(const ConfigReader& config, Decoder& decoder, bool even) {
  constexpr int64_t kNotUsed = 64;  // a head size, where the hidden size is no multiple of heads
  read_common(config, decoder, {.head_dim = kNotUsed});
  const int64_t value_dim = even ? decoder.sizes.hidden / decoder.sizes.heads : 0;
  decoder.latent = Latent{.attention = read_latent(config, decoder.sizes.heads, 0, value_dim)};
  decoder.ropes = {read_rope(config, {.head_dim = decoder.latent->attention.latent.rotated,
                                      .max_position = decoder.sizes.max_position})};
}

void read_unrotated_latents(const ConfigReader& config, Decoder& decoder) {
  constexpr int64_t kNotUsed = 64;  // a head size, where the hidden size is no multiple of heads
  read_common(config, decoder, {.head_dim = kNotUsed});
  decoder.ropes.clear();
  decoder.latent = Latent{.attention = read_latent(config, decoder.sizes.heads, -1)};
}

namespace {

/// DeepSeek's experts under the names of its configs. `dense_layers`: the first ones, where the
/// config does not say.
Mixture read_deepseek_mixture(const ConfigReader& config, int64_t layers, int64_t dense_layers) {
  const MlpSpec sizes{.intermediate = config.required({"moe_intermediate_size"}, kWidths)};
  Mixture mixture = read_mixture(config, layers, sizes);
  const int64_t shared = config.integer({"n_shared_experts"}, 0, {0, kMostExperts});
  mixture.sizes.shared.intermediate = shared * sizes.intermediate;
  mixture.sparse = sparse_after_dense(config, layers, dense_layers);
  mixture.names.router.engine = "mlp.experts.gate";  // the alias that vLLM saves it under
  return mixture;
}

/// vLLM's class has the bias only where the config names the rule that it is for.
bool has_choice_bias(const ConfigReader& config) {
  return !config.describes() || config.text({"topk_method"}, "") == kBiasedMethod;
}

/// The router before V3: softmax over all experts, perhaps from the best groups alone; `normalize`:
/// weights are divided by their sum.
void use_softmax_router(const ConfigReader& config, Mixture& mixture, bool normalize) {
  RouterSpec& router = mixture.sizes.router;
  router.normalize = normalize;
  router.factor = static_cast<float>(config.positive({"routed_scaling_factor"}, 1));
  const std::string method = config.text({"topk_method"}, "greedy");
  if (method == "group_limited_greedy") {
    read_groups(config, mixture, GroupScore::best);
  } else if (method != "greedy") {
    config.doubt("topk_method", "greedy or group_limited_greedy");
    if (has_choice_bias(config)) {
      mixture.names.choice_bias = {kV3Bias, "mlp.gate.e_score_correction_bias"};
    }
  }
}

}  // namespace

void use_v3(const ConfigReader& config, Decoder& decoder, int64_t dense_layers,
            const std::string& choice_bias) {
  decoder.latent->attention.rope_pairs =
      config.boolean({"rope_interleave"}, true) ? RopePairs::neighbours : RopePairs::halves;
  decoder.mixture = read_deepseek_mixture(config, decoder.sizes.layers, dense_layers);
  use_deepseek_router(config, *decoder.mixture);
  if (choice_bias != kV3Bias || has_choice_bias(config)) {
    decoder.mixture->names.choice_bias = {choice_bias, "mlp.gate.e_score_correction_bias"};
  }
  decoder.vllm.knows_stage = true;
}

namespace {

/// vllm/model_executor/models/deepseek_v2.py: DeepseekV2MoE.
constexpr VllmVersion kWholeShared{0, 11, 0};

void read_v3(const ConfigReader& config, Decoder& decoder) {
  read_latent_decoder(config, decoder);
  use_v3(config, decoder, 3);
  decoder.vllm.whole_shared = kWholeShared;
}

/// Which layers choose keys; the others see those that the layer before sees (GLM-5.2).
std::vector<bool> choosing_layers(const ConfigReader& config, int64_t layers) {
  std::vector<bool> chooses(static_cast<size_t>(layers), true);
  const std::string pattern = config.text({"index_topk_pattern"}, "");
  const int64_t step = config.integer({"index_topk_freq"}, 1, {1, 4096});
  const int64_t first = config.integer({"index_skip_topk_offset"}, 2, {0, 4096});
  for (int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<size_t>(i);
    if (pattern.empty()) {
      chooses[at] = std::max<int64_t>(i - first + 1, 0) % step == 0;
    } else {
      chooses[at] = at >= pattern.size() || pattern[at] != 'S';
    }
  }
  constexpr const char* kTypes = "indexer_types";
  chooses = read_layer_types(config, kTypes, layers, "full", "shared").value_or(std::move(chooses));
  if (chooses.front()) return chooses;
  const char* by_rule = pattern.empty() ? "index_skip_topk_offset" : "index_topk_pattern";
  config.refuse(config.find({kTypes}) != nullptr ? kTypes : by_rule,
                "a first layer that chooses keys itself");
}

}  // namespace

void read_indexer(const ConfigReader& config, Decoder& decoder, int64_t heads, bool interleave) {
  AttentionSpec& attention = decoder.latent->attention;
  if (attention.latent.q_rank == 0) config.refuse("q_lora_rank", "a rank: the indexer reads it");
  IndexerSpec& indexer = attention.indexer;
  indexer.most = config.integer({"index_topk"}, 2048, {1, 1 << 24});
  indexer.heads = config.integer({"index_n_heads"}, heads, {1, 4096});
  indexer.head_dim = config.integer({"index_head_dim"}, 128,
                                    {std::max<int64_t>(1, attention.latent.rotated), 4096});
  // vLLM's classes assume halves where transformers' have neighbours.
  indexer.rope_pairs =
      config.boolean({"indexer_rope_interleave"}, interleave && !config.describes())
          ? RopePairs::neighbours
          : RopePairs::halves;
  decoder.latent->modules = LatentModules::indexed;
  decoder.latent->chooses = choosing_layers(config, decoder.sizes.layers);
}

ModelSpec make_deepseek(const ConfigReader& config) {
  Decoder decoder{.family = "deepseek"};
  read_common(config, decoder);
  read_plain_attention_biases(config, decoder);
  decoder.mixture = read_deepseek_mixture(config, decoder.sizes.layers, 0);
  use_softmax_router(config, *decoder.mixture, config.boolean({"norm_topk_prob"}, false));
  if (config.text({"scoring_func"}, "softmax") != "softmax") {
    config.doubt("scoring_func", "softmax");
  }
  decoder.vllm.knows_stage = true;
  decoder.vllm.whole_shared = kWholeShared;
  return build(decoder);
}

ModelSpec make_deepseek_v2(const ConfigReader& config) {
  Decoder decoder{.family = "deepseek_v2"};
  read_latent_decoder(config, decoder);
  decoder.latent->attention.rope_pairs = RopePairs::neighbours;
  decoder.mixture = read_deepseek_mixture(config, decoder.sizes.layers, 0);
  use_softmax_router(config, *decoder.mixture, false);  // norm_topk_prob is not read
  decoder.vllm.knows_stage = true;
  decoder.vllm.whole_shared = kWholeShared;
  return build(decoder);
}

ModelSpec make_deepseek_v3(const ConfigReader& config) {
  Decoder decoder{.family = "deepseek_v3"};
  read_v3(config, decoder);
  return build_without_prediction(config, decoder);
}

ModelSpec make_deepseek_v32(const ConfigReader& config) {
  Decoder decoder{.family = "deepseek_v32"};
  read_v3(config, decoder);
  read_sparse_types(config, decoder);
  constexpr int64_t kIndexHeads = 64;
  read_indexer(config, decoder, kIndexHeads, false);
  return build_without_prediction(config, decoder);
}

ModelSpec make_glm_moe_dsa(const ConfigReader& config) {
  Decoder decoder{.family = "glm_moe_dsa"};
  read_latent_decoder(config, decoder);
  use_v3(config, decoder, 3);
  read_sparse_types(config, decoder);
  constexpr int64_t kIndexHeads = 32;
  read_indexer(config, decoder, kIndexHeads, true);
  decoder.vllm.whole_shared = kWholeShared;
  return build_without_prediction(config, decoder);
}

ModelSpec make_glm4_moe_lite(const ConfigReader& config) {
  Decoder decoder{.family = "glm4_moe_lite"};
  want_for_vllm(config, "first_k_dense_replace", decoder);
  read_latent_decoder(config, decoder);
  use_v3(config, decoder, 1, kChoiceBias);
  read_sparse_types(config, decoder);
  decoder.mixture->router_dtype = DType::f32;
  decoder.mixture->names.router.engine = "mlp.gate";
  decoder.vllm.experts_in_stages = true;
  return build_without_prediction(config, decoder);
}

namespace {

/// Which layers `layer_types` says see chosen keys alone.
std::vector<bool> sparse_attention(const ConfigReader& config, int64_t layers) {
  std::vector<bool> sparse(static_cast<size_t>(layers));
  const auto types = config.texts("layer_types").value_or(std::vector<std::string>());
  for (size_t i = 0; i < std::min(sparse.size(), types.size()); ++i) {
    sparse[i] = types[i] == "indexed_attention" || types[i].find("sparse") != std::string::npos;
  }
  return sparse;
}

}  // namespace

ModelSpec make_hy_v4(const ConfigReader& config) {
  Decoder decoder{.family = "hy_v4"};
  read_latent_decoder(config, decoder);
  use_v3(config, decoder, 1, kChoiceBias);
  Mixture& mixture = *decoder.mixture;
  mixture.sparse = sparse_by_types(config, "mlp_layer_types", std::move(mixture.sparse));
  mixture.router_dtype = DType::f32;
  if (config.find({"index_topk"}) != nullptr) {
    constexpr int64_t kIndexHeads = 64;
    read_indexer(config, decoder, kIndexHeads, false);
    AttentionSpec& attention = decoder.latent->attention;
    attention.indexer.rope_pairs = attention.rope_pairs;
    decoder.latent->sparse = sparse_attention(config, decoder.sizes.layers);
    decoder.vllm.copies_whole_steps = true;
  }
  if (config.boolean({"gated_mla"}, true)) decoder.names.attention_gate = "linear_gate";
  decoder.gate_by_head = config.text({"gating_type"}, "elementwise") != "elementwise";
  decoder.sinks = config.boolean({"learnable_sink"}, true);
  if (config.boolean({"enable_ihc"}, true)) {
    mix_streams(config.integer({"hc_mult"}, 4, {1, 1 << 10}), 2, 2, decoder);
  }
  return build(decoder);
}

ModelSpec make_minicpm3(const ConfigReader& config) {
  Decoder decoder{.family = "minicpm3"};
  read_latent_decoder(config, decoder, true);
  decoder.latent->modules = LatentModules::beside;
  decoder.vllm.expands_latents = true;
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.mlp_bias_kept = Kept::in_run;
  decoder.order = {LayerPart::attention_norm, LayerPart::attention, LayerPart::mlp_norm,
                   LayerPart::mlp};
  decoder.embedding_scale = static_cast<float>(config.positive({"scale_emb"}, 12));
  // Null is no scaling.
  const double root = std::sqrt(static_cast<double>(decoder.sizes.layers));
  const double depth =
      config.positive({"scale_depth"}, config.has("scale_depth") ? root : 1.4) / root;
  const int64_t no_base = config.has("dim_model_base") ? decoder.sizes.hidden : 256;
  const int64_t base = config.integer({"dim_model_base"}, no_base, kWidths);
  ModelSpec spec = build(decoder);
  for (LayerSpec& layer : spec.layers) layer.branch_factor = static_cast<float>(depth);
  spec.logits_scale =
      static_cast<float>(static_cast<double>(base) / static_cast<double>(spec.hidden_size));
  return spec;
}

}  // namespace plimsoll::model
