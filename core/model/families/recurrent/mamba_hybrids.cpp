// Mamba-2 in most layers, attention in some or beside it: Bamba, Granite 4, Nemotron-H, Falcon-H1.
#include <algorithm>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/dense/scaled.h"
#include "model/families/families.h"
#include "model/families/mixtures/granite_moe.h"

namespace plimsoll::model {
namespace {

int64_t expanded(const ConfigReader& config, int64_t hidden) {
  return config.integer({"mamba_expand"}, 2, {1, 65536}) * hidden;
}

std::vector<bool> none(const Sizes& sizes) {
  return std::vector<bool>(static_cast<size_t>(sizes.layers));
}

/// The mixer of Bamba, Granite 4 and Falcon-H1, under the names that they share.
RecurrentTable read_prefixed(const ConfigReader& config, const Decoder& decoder, int64_t width) {
  RecurrentTable table =
      read_mamba2(config, kMambaPrefixed, width, {.heads = 128, .groups = 1, .state = 256});
  table.module = "mamba";
  table.sizes.norm.epsilon = decoder.norm.epsilon;
  return table;
}

void name_feed_forward(Decoder& decoder) {
  decoder.names.final_norm = "final_layernorm";
  decoder.names.mlp = "feed_forward";
  decoder.names.mlp_norm = "pre_ff_layernorm";
}

/// The letters of `layers_block_type`, as later configs have them.
std::string read_letters(const ConfigReader& config) {
  const auto words = config.texts("layers_block_type");
  if (!words) config.refuse("hybrid_override_pattern", "letters M, *, - and E");
  std::string letters;
  for (const std::string& word : *words) {
    const bool mamba = word == "mamba" || word == "linear_attention";
    const bool attention = word == "attention" || word == "full_attention";
    letters += mamba ? 'M' : attention ? '*' : word == "mlp" ? '-' : word == "moe" ? 'E' : '?';
  }
  return letters;
}

/// M Mamba-2, * attention, - MLP, E experts: one in each layer.
std::vector<LayerParts> read_pattern(const ConfigReader& config) {
  const std::string pattern = config.find({"hybrid_override_pattern"})
                                  ? config.text({"hybrid_override_pattern"}, "")
                                  : read_letters(config);
  std::vector<LayerParts> parts;
  for (const char kind : pattern) {
    if (kind != 'M' && kind != '*' && kind != '-' && kind != 'E') {
      config.refuse("hybrid_override_pattern", "letters M, *, - and E");
    }
    parts.push_back({.attention = kind == '*',
                     .recurrent = kind == 'M',
                     .mlp = kind == '-' || kind == 'E',
                     .experts = kind == 'E'});
  }
  return parts;
}

/// DeepSeek's router, and experts without gates.
Mixture read_nemotron_mixture(const ConfigReader& config, const Decoder& decoder) {
  MlpSpec missing{};
  missing.intermediate = config.integer({"moe_intermediate_size"}, 7688, kWidths);
  Mixture mixture = read_mixture(config, decoder.sizes.layers, missing);
  mixture.sizes.gated = false;
  use_deepseek_router(config, mixture);
  if (config.integer({"n_shared_experts"}, 1, {0, kMostExperts}) > 0) {
    mixture.sizes.shared.intermediate =
        config.integer({"moe_shared_expert_intermediate_size"}, 7688, kWidths);
  }
  mixture.sparse.clear();
  for (const LayerParts& parts : decoder.parts) mixture.sparse.push_back(parts.experts);
  MixtureNames& names = mixture.names;
  names.router = {"mixer.gate", "mixer.gate"};
  names.choice_bias = {"mixer.experts.routed_experts.e_score_correction_bias",
                       "mixer.gate.e_score_correction_bias"};
  names.experts = {"mixer.experts.routed_experts", "mixer.experts"};
  names.expert = {.gate = "", .up = "up_proj", .down = "down_proj"};
  names.shared = {"mixer.experts._shared_experts._layer", "mixer.shared_experts"};
  names.shared_up = "up_proj";
  if (config.find({"moe_latent_size"})) {
    mixture.sizes.latent = config.integer({"moe_latent_size"}, 0, kWidths);
    mixture.latent_bias = config.boolean({"mlp_bias"}, false);
    names.latent_in = {"mixer.experts.routed_input_transform", "mixer.fc1_latent_proj"};
    names.latent_out = {"mixer.experts.routed_output_transform", "mixer.fc2_latent_proj"};
  }
  return mixture;
}

}  // namespace

ModelSpec make_bamba(const ConfigReader& config) {
  Decoder decoder{.family = "bamba"};
  read_common(config, decoder,
              {.share_key = "",  // half of the head, whatever the config says
               .share = 0.5});
  const Sizes& sizes = decoder.sizes;
  decoder.parts = attention_or_recurrent(
      read_layer_list(config, "attn_layer_indices", sizes.layers).value_or(none(sizes)));
  decoder.recurrent = read_prefixed(config, decoder, expanded(config, sizes.hidden));
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  name_feed_forward(decoder);
  decoder.vllm.refused = "vLLM 0.32.0 has no class for Bamba";
  return build(decoder);
}

ModelSpec make_granite_hybrid(const ConfigReader& config) {
  Decoder decoder = read_scaled(config, "granitemoehybrid");
  decoder.logits_scale = 1 / decoder.logits_scale;
  Sizes& sizes = decoder.sizes;
  const int64_t shared = config.integer({"shared_intermediate_size"}, 1024, kWidths);
  if (config.integer({"num_local_experts"}, 8, {.least = 0}) > 0) {
    decoder.mixture = read_granite_mixture(config, sizes);
    decoder.mixture->sizes.shared.intermediate = shared;
  }
  sizes.intermediate = shared;  // of layers without experts
  decoder.parts = attention_or_recurrent(
      read_layer_types(config, "layer_types", sizes.layers, "attention", "").value_or(none(sizes)));
  if (config.text({"position_embedding_type"}, "nope") != "rope") {
    decoder.layer_ropes.assign(static_cast<size_t>(sizes.layers), -1);
  }
  decoder.recurrent = read_prefixed(config, decoder, expanded(config, sizes.hidden));
  decoder.gate_up_stored = GateUpStored::fused;
  decoder.names.mlp = "shared_mlp";
  decoder.names.gate_up = "input_linear";
  decoder.names.down = "output_linear";
  decoder.vllm.knows_stage = false;
  return build(decoder);
}

ModelSpec make_nemotron_h(const ConfigReader& config) {
  Decoder decoder{.family = "nemotron_h"};
  read_common(config, decoder,
              {.activation_key = "mlp_hidden_act",
               .epsilon_key = "layer_norm_epsilon",
               .layers_listed = true});
  Sizes& sizes = decoder.sizes;
  decoder.parts = read_pattern(config);
  if (decoder.parts.empty()) config.refuse("hybrid_override_pattern", "a letter for each layer");
  if (!config.has("num_hidden_layers")) sizes.layers = std::ssize(decoder.parts);
  if (decoder.parts.size() != static_cast<size_t>(sizes.layers)) {
    config.refuse("hybrid_override_pattern", fmt::format("one letter of {} layers", sizes.layers));
  }
  decoder.ropes.clear();
  constexpr Mamba2Keys kKeys{"mamba_num_heads", "mamba_head_dim", "n_groups",
                             "ssm_state_size",  "conv_kernel",    "use_conv_bias",
                             "mamba_proj_bias"};
  const int64_t heads = config.integer({"mamba_num_heads"}, 128, {1, 65536});
  const int64_t head_dim = config.integer({"mamba_head_dim"}, 64, {1, 65536});
  decoder.recurrent = read_mamba2(config, kKeys, heads * head_dim,
                                  {.heads = 128, .head_dim = 64, .groups = 8, .state = 128});
  decoder.recurrent->module = "mixer";
  RecurrentTable& table = *decoder.recurrent;
  table.bias = table.out_bias = config.boolean({"use_bias"}, false);
  decoder.recurrent->sizes.norm.epsilon = decoder.norm.epsilon;
  decoder.mlp_kind = MlpKind::plain;
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  const auto has_experts = [](const LayerParts& parts) { return parts.experts; };
  if (std::ranges::any_of(decoder.parts, has_experts)) {
    decoder.mixture = read_nemotron_mixture(config, decoder);
  }
  decoder.names.final_norm = "norm_f";
  decoder.names.attention = decoder.names.mlp = "mixer";
  decoder.names.attention_norm = decoder.names.mlp_norm = "norm";
  decoder.spellings = {{"model.embed_tokens.", "backbone.embeddings."}, {"model.", "backbone."}};
  decoder.vllm.float_states = true;
  decoder.vllm.whole_shared = VllmVersion{0, 11, 1};
  return build(decoder);
}

ModelSpec make_falcon_h1(const ConfigReader& config) {
  Decoder decoder{.family = "falcon_h1"};
  read_common(config, decoder);
  const Sizes& sizes = decoder.sizes;
  const auto factor = [&](std::string_view key) {
    return static_cast<float>(config.positive({key}, 1));
  };
  decoder.embedding_scale = factor("embedding_multiplier");
  decoder.logits_scale = factor("lm_head_multiplier");
  decoder.attention_factors = {.in = factor("attention_in_multiplier"),
                               .key = factor("key_multiplier"),
                               .out = factor("attention_out_multiplier")};
  if (config.find({"mlp_multipliers"})) {
    const std::vector<double> factors = config.positives("mlp_multipliers", 2);
    decoder.gate_factor = static_cast<float>(factors[0]);
    decoder.mlp_factor = static_cast<float>(factors[1]);
  }
  const Json* stated = config.find({"mamba_d_ssm"});
  const int64_t width = config.has("mamba_d_ssm") && stated == nullptr
                            ? expanded(config, sizes.hidden)
                            : config.integer({"mamba_d_ssm"}, 1024, kWidths);
  decoder.recurrent = read_prefixed(config, decoder, width);
  RecurrentTable& table = *decoder.recurrent;
  table.engine_module = "mamba.mamba";
  // vLLM's class reads the one flag for both.
  const bool out_bias = config.boolean({"projectors_bias"}, false);
  if (table.bias != out_bias) table.out_bias_kept = out_bias ? Kept::in_run : Kept::in_vllm;
  table.out_bias = table.bias || out_bias;
  table.sizes.in_factor = factor("ssm_in_multiplier");
  table.sizes.out_factor = factor("ssm_out_multiplier");
  if (config.find({"ssm_multipliers"})) {
    for (const double each : config.positives("ssm_multipliers", 5)) {
      table.sizes.factors.push_back(static_cast<float>(each));
    }
  }
  table.sizes.norm.present = config.boolean({"mamba_rms_norm"}, false);
  if (config.boolean({"mamba_norm_before_gate"}, true)) {
    table.sizes.gated = RecurrentSpec::Gated::after_norm;
  }
  decoder.parts.assign(static_cast<size_t>(sizes.layers), {.recurrent = true});
  read_plain_attention_biases(config, decoder);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.mlp_bias_kept = Kept::in_run;
  name_feed_forward(decoder);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
