// Mixtures of experts with rules of their own: ERNIE 4.5 and its VL, gpt-oss, AFMoE, Mellum.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_ernie4_5_moe(const ConfigReader& config) {
  Decoder decoder{.family = "ernie4_5_moe"};
  read_common(config, decoder);
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = config.boolean({"use_bias"}, false);
  if (decoder.qkv_bias) config.refuse("use_bias", "false");
  const int64_t layers = decoder.sizes.layers;
  MlpSpec missing{};
  missing.intermediate = config.integer({"moe_intermediate_size"}, 1536, kWidths);
  decoder.mixture = read_mixture(config, layers, missing);
  Mixture& mixture = *decoder.mixture;
  mixture.router_dtype = DType::f32;
  mixture.bias_dimensions = 2;
  mixture.sizes.router.least_sum = static_cast<float>(config.positive({"moe_norm_min"}, 1e-12));
  mixture.sizes.shared.intermediate =
      config.integer({"moe_num_shared_experts"}, 2, {0, kMostExperts}) * missing.intermediate;
  mixture.names.choice_bias = {kChoiceBias, "mlp.moe_statics.e_score_correction_bias"};
  decoder.vllm.knows_stage = decoder.vllm.expert_for_ranks = true;
  const int64_t first = config.integer({"moe_layer_start_index"}, 1, {.least = 0});
  const int64_t last = config.integer({"moe_layer_end_index"}, -1, {.least = -1});
  const int64_t step = config.integer({"moe_layer_interval"}, 1, {1, 4096});
  for (int64_t i = 0; i < layers; ++i) {
    mixture.sparse[static_cast<size_t>(i)] =
        (i + 1) % step == 0 && i >= first && (last < 0 || i <= last);
  }
  ModelSpec spec = build(decoder);
  for (LayerSpec& layer : spec.layers) layer.attention.rope_pairs = RopePairs::neighbours;
  return spec;
}

namespace {

using Pair = std::array<int64_t, 2>;  // of text, and of images

Pair read_pair(const ConfigReader& config, const char* key, Pair missing) {
  const Json* listed = config.find({key});
  if (listed == nullptr) return missing;
  const auto number = [&](const Json& value) {
    if (!value.is_number_integer() || value < 0 || value > kWidths.most) {
      config.refuse(key, "a number or two");
    }
    return value.get<int64_t>();
  };
  if (!listed->is_array()) return {number(*listed), number(*listed)};
  if (listed->empty()) return missing;
  return {number(listed->front()), number(listed->back())};
}

}  // namespace

ModelSpec make_ernie4_5_vl(const ConfigReader& config) {
  Decoder decoder{.family = "ernie4_5_vl_moe"};
  read_common(config, decoder);
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  decoder.qkv_bias = decoder.mlp_bias = config.boolean({"use_bias"}, false);
  decoder.vllm.knows_stage = decoder.vllm.rotary_in_each = true;
  const int64_t layers = decoder.sizes.layers;
  const Pair experts = read_pair(config, "moe_num_experts", {0, 0});
  const Pair widths = read_pair(config, "moe_intermediate_size", {0, 0});
  const Pair first = read_pair(config, "moe_layer_start_index", {0, 0});
  const Pair last = read_pair(config, "moe_layer_end_index", {layers - 1, layers - 1});
  const int64_t step = config.integer({"moe_layer_interval"}, 1, {1, 4096});
  const auto mixture_of = [&](size_t kind, const std::string& module) {
    Mixture mixture;
    mixture.sparse = sparse_every(layers, step);
    mixture.router_dtype = DType::f32;
    mixture.described = config.describes();
    mixture.sizes.experts = experts[kind];
    mixture.sizes.experts_per_token = config.integer({"moe_k"}, 2, {1, kMostExperts});
    mixture.sizes.intermediate = widths[kind];
    mixture.names.router = {module + "_gate", module + "_gate"};
    mixture.names.experts = {module + ".routed_experts", module};
    for (int64_t i = 0; i < layers; ++i) {
      if (i < first[kind] || i > last[kind]) mixture.sparse[static_cast<size_t>(i)] = false;
    }
    return mixture;
  };
  Mixture& text = decoder.mixture.emplace(mixture_of(0, "mlp.text_experts"));
  decoder.image_mixture = mixture_of(1, "mlp.vision_experts");
  text.names.choice_bias.engine = text.names.choice_bias.stored = "mlp.e_score_correction_bias";
  text.bias_kinds = 2;
  text.sizes.shared.intermediate =
      config.integer({"moe_num_shared_experts"}, 0, {0, kMostExperts}) * widths[0];
  return build(decoder);
}

ModelSpec make_gpt_oss(const ConfigReader& config) {
  Decoder decoder{.family = "gpt_oss"};
  // vLLM's class divides the KV heads by the ranks, and the query heads by the quotient.
  decoder.vllm.kv_head_for_ranks = true;
  read_common(config, decoder);
  const int64_t layers = decoder.sizes.layers;
  decoder.windows = read_windows(config, layers, config.integer({"sliding_window"}, 128),
                                 [](int64_t layer) { return layer % 2 == 0; });
  decoder.qkv_bias = decoder.out_bias = true;
  if (!config.boolean({"attention_bias"}, true)) {
    decoder.qkv_bias_kept = decoder.out_bias_kept = Kept::in_vllm;
  }
  decoder.activation = Activation::gelu_quick;  // gate sigmoid(1.702 gate)
  if (config.positive({"swiglu_alpha"}, 1.702) != 1.702) config.doubt("swiglu_alpha", "1.702");
  decoder.names.engine_embedding = "embedding";
  decoder.names.engine_attention = "attn";
  decoder.sinks = true;
  decoder.mixture = read_mixture(config, layers, {.intermediate = decoder.sizes.intermediate});
  Mixture& mixture = *decoder.mixture;
  mixture.stored = ExpertsStored::in_turn;
  const ConfigReader quantization = config.whole().object_or_empty("quantization_config");
  if (quantization.text({"quant_method"}, "") == "mxfp4") {
    mixture.stored = ExpertsStored::mxfp4;
    decoder.vllm.refused = "vLLM packs its experts for the card's kernels, which is not done here";
  }
  mixture.router_bias = true;
  const auto limit = static_cast<float>(config.positive({"swiglu_limit"}, 7));
  mixture.sizes.limits = {.gate = limit, .up = limit};
  mixture.sizes.up_offset = 1;
  mixture.names.router = {"mlp.router", "mlp.router"};
  mixture.names.expert = {.gate = "", .up = "gate_up_proj", .down = "down_proj"};
  decoder.vllm.float_rotary = true;
  return build(decoder);
}

ModelSpec make_afmoe(const ConfigReader& config) {
  Decoder decoder{.family = "afmoe"};
  for (const char* key : {"n_group", "topk_group", "route_norm", "score_func"}) {
    want_for_vllm(config, key, decoder);
  }
  read_common(config, decoder);
  const int64_t layers = decoder.sizes.layers;
  const int64_t step = config.integer({"global_attn_every_n_layers"}, 4, {1, 4096});
  decoder.windows = read_windows(config, layers, config.integer({"sliding_window"}, 1024),
                                 [=](int64_t layer) { return (layer + 1) % step != 0; });
  read_plain_attention_biases(config, decoder);
  decoder.qk_norm = true;
  decoder.scales = ScalesPlace::at_end;
  if (config.boolean({"mup_enabled"}, false)) {
    decoder.embedding_scale = std::sqrt(static_cast<float>(decoder.sizes.hidden));
  }
  decoder.placement = NormPlacement::sandwich;
  decoder.names.attention_gate = "gate_proj";
  decoder.names.attention_post_norm = "post_attention_layernorm";
  decoder.names.mlp_norm = "pre_mlp_layernorm";
  decoder.names.mlp_post_norm = "post_mlp_layernorm";
  MlpSpec missing{};
  missing.intermediate = config.integer({"moe_intermediate_size"}, 1408, kWidths);
  decoder.mixture = read_mixture(config, layers, missing);
  Mixture& mixture = *decoder.mixture;
  mixture.sparse = sparse_from(layers, config.integer({"num_dense_layers"}, 1, {.least = 0}));
  mixture.sizes.router = {.score = RouterScore::sigmoid,
                          .epsilon = 1e-20f,
                          .factor = static_cast<float>(config.positive({"route_scale"}, 1))};
  mixture.sizes.shared.intermediate =
      config.integer({"num_shared_experts"}, 2, {0, kMostExperts}) * missing.intermediate;
  mixture.router_dtype = DType::f32;
  mixture.names.router.stored = "mlp.router.gate";
  mixture.names.choice_bias = {"mlp.expert_bias", "mlp.expert_bias"};
  mixture.names.order = {MixturePart::choice_bias, MixturePart::router, MixturePart::shared,
                         MixturePart::experts};
  decoder.vllm.knows_stage = true;
  decoder.vllm.experts_in_stages = std::ranges::any_of(mixture.sparse, std::identity());
  ModelSpec spec = build(decoder);
  for (LayerSpec& layer : spec.layers) {
    if (layer.attention.window == 0) layer.attention.rope = -1;
  }
  return spec;
}

ModelSpec make_mellum(const ConfigReader& config) {
  Decoder decoder{.family = "mellum"};
  read_common(config, decoder);
  const int64_t layers = decoder.sizes.layers;
  decoder.windows = read_windows(config, layers, config.integer({"sliding_window"}, 1024),
                                 [](int64_t) { return false; });
  decoder.ropes.push_back(read_rope(config, {.head_dim = decoder.sizes.head_dim,
                                             .max_position = decoder.sizes.max_position,
                                             .layer_type = "sliding_attention"}));
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = true;
  MlpSpec missing{};
  missing.intermediate = config.integer({"moe_intermediate_size"}, 896, kWidths);
  decoder.mixture = read_mixture(config, layers, missing);
  decoder.mixture->sizes.router.normalize = config.boolean({"norm_topk_prob"}, true);
  decoder.mixture->sparse =
      sparse_by_types(config, "mlp_layer_types", std::move(decoder.mixture->sparse));
  decoder.mixture->names.router.engine = "mlp.experts.gate";
  use_transformers_class(decoder);
  return build(decoder);
}

}  // namespace plimsoll::model
