// Mixtures whose layers have unlike heads: MiMo V2 Flash, Laguna.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

constexpr double kMimoRotated = 0.334;  // of a head, where the config does not say

/// A list of whole numbers from 0 to `most`, one a layer.
std::vector<int64_t> read_by_layer(const ConfigReader& config, std::string_view key, int64_t layers,
                                   int64_t most) {
  const Json* list = config.find({key});
  const auto fits = [&](const Json& number) {
    return number.is_number_unsigned() && number.get<uint64_t>() <= static_cast<uint64_t>(most);
  };
  if (list == nullptr || !list->is_array() || static_cast<int64_t>(list->size()) != layers ||
      !std::ranges::all_of(*list, fits)) {
    config.refuse(key, fmt::format("a list of {} numbers from 0 to {}", layers, most));
  }
  return list->get<std::vector<int64_t>>();
}

// MiMo's windowed layers have keys of their own before the usual ones; in the configs of
// transformers 5, which has no such keys, twice the KV heads, and sinks.
Heads read_window_heads(const ConfigReader& config, const Heads& full) {
  Heads heads = full;
  if (!config.has("hybrid_layer_pattern")) {
    heads.kv_heads *= 2;
    heads.sinks = true;
    if (heads.heads % heads.kv_heads != 0) {
      config.refuse("num_key_value_heads", fmt::format("half a divisor of {}", heads.heads));
    }
    return heads;
  }
  heads.heads = config.integer({"swa_num_attention_heads"}, full.heads, kHeadCounts);
  heads.kv_heads = config.integer({"swa_num_key_value_heads"}, full.kv_heads, kHeadCounts);
  heads.head_dim = config.integer({"swa_head_dim"}, full.head_dim, kHeadDims);
  heads.value_dim = config.integer({"swa_v_head_dim"}, full.value_dim, {1, heads.head_dim});
  heads.sinks = config.boolean({"add_swa_attention_sink_bias"}, false);
  if (heads.heads % heads.kv_heads != 0) {
    config.refuse("swa_num_key_value_heads",
                  fmt::format("a divisor of swa_num_attention_heads ({})", heads.heads));
  }
  return heads;
}

Mixture read_mimo_mixture(const ConfigReader& config, int64_t layers) {
  MlpSpec missing{};
  missing.intermediate = config.integer({"moe_intermediate_size"}, 2048, kWidths);
  Mixture mixture = read_mixture(config, layers, missing);
  use_deepseek_router(config, mixture);
  mixture.router_dtype = dtype_from_torch(config.text({"moe_router_dtype"}, "float32"));
  if (!mixture.router_dtype) config.doubt("moe_router_dtype", "float32, bfloat16 or float16");
  mixture.sparse = sparse_by_numbers(
      config, "moe_layer_freq", sparse_by_types(config, "mlp_layer_types", sparse_from(layers, 1)));
  mixture.names.choice_bias = {kChoiceBias, "mlp.gate.e_score_correction_bias"};
  return mixture;
}

/// Tokens that a windowed layer sees; `sliding_window_size` leaves out the one that asks, as SGLang
/// and transformers have it. vLLM's class takes that number for the window.
int64_t read_mimo_window(const ConfigReader& config) {
  constexpr IntegerRange kWindows{1, 1 << 30};
  if (config.describes())
    return config.integer({"sliding_window_size", "sliding_window"}, 0, kWindows);
  if (const auto before = config.integer({"sliding_window_size"}, {0, kWindows.most})) {
    return *before + 1;
  }
  return config.integer({"sliding_window"}, 129, kWindows);
}

/// `hybrid_layer_pattern` (1: with a window), else `layer_types`, else a window in all but the
/// first and every sixth.
std::vector<bool> read_mimo_windows(const ConfigReader& config, int64_t layers) {
  if (config.has("hybrid_layer_pattern")) {
    const auto kinds = read_by_layer(config, "hybrid_layer_pattern", layers, 1);
    return {kinds.begin(), kinds.end()};
  }
  std::vector<bool> slides;
  for (int64_t i = 0; i < layers; ++i) slides.push_back(i > 0 && (i + 1) % 6 != 0);
  return read_layer_types(config, "layer_types", layers, "sliding_attention", "full_attention")
      .value_or(std::move(slides));
}

Rope read_mimo_window_rope(const ConfigReader& config, int64_t head_dim, int64_t max_position) {
  constexpr const char* kType = "sliding_attention";
  if (config.object_or_empty("rope_parameters").has(kType)) {
    return read_local_rope(config, {.head_dim = head_dim,
                                    .max_position = max_position,
                                    .theta_key = "",
                                    .layer_type = kType,
                                    .share = kMimoRotated});
  }
  const double share = config.positive({"partial_rotary_factor"}, kMimoRotated);
  return plain_rope(config, config.positive({"swa_rope_theta"}, 10000),
                    static_cast<int64_t>(share * static_cast<double>(head_dim)), max_position);
}

}  // namespace

ModelSpec make_mimo_v2_flash(const ConfigReader& config) {
  Decoder decoder{.family = "mimo_v2_flash"};
  want_for_vllm(config, "layernorm_epsilon", decoder);
  want_for_vllm(config, "hybrid_layer_pattern", decoder);
  read_common(
      config, decoder,
      {.theta = 5000000,
       .epsilon_key = config.has("layernorm_epsilon") ? "layernorm_epsilon" : "rms_norm_eps",
       .share = kMimoRotated});
  const Sizes& sizes = decoder.sizes;
  decoder.qkv_bias = config.boolean({"attention_bias"}, false);
  const Heads full{.heads = sizes.heads,
                   .kv_heads = sizes.kv_heads,
                   .head_dim = sizes.head_dim,
                   .value_dim = config.integer(
                       {"v_head_dim"}, std::min<int64_t>(128, sizes.head_dim), {1, sizes.head_dim}),
                   .sinks = config.boolean({"add_full_attention_sink_bias"}, false)};
  const Heads windowed = read_window_heads(config, full);
  const int64_t window = read_mimo_window(config);
  for (const bool slides : read_mimo_windows(config, sizes.layers)) {
    decoder.windows.push_back(slides ? window : 0);
    decoder.heads.push_back(slides ? windowed : full);
  }
  decoder.ropes.push_back(read_mimo_window_rope(config, windowed.head_dim, sizes.max_position));
  const double missing = config.has("attention_value_scale") ? 1 : 0.707;
  decoder.value_factor = static_cast<float>(config.positive({"attention_value_scale"}, missing));
  decoder.names.sinks = "attention_sink_bias";
  decoder.mixture = read_mimo_mixture(config, sizes.layers);
  decoder.vllm.knows_stage = decoder.vllm.expert_for_ranks = true;
  ModelSpec spec = build(decoder);
  spec.ignored_prefixes.emplace_back("model.mtp.");
  return spec;
}

ModelSpec make_laguna(const ConfigReader& config) {
  Decoder decoder{.family = "laguna"};
  read_common(config, decoder);
  const Sizes& sizes = decoder.sizes;
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = true;
  decoder.windows = read_windows(config, sizes.layers, config.integer({"sliding_window"}, 512),
                                 [](int64_t) { return false; });
  decoder.ropes.push_back(read_rope(config, {.head_dim = sizes.head_dim,
                                             .max_position = sizes.max_position,
                                             .layer_type = "sliding_attention"}));
  if (config.has("num_attention_heads_per_layer")) {
    for (const int64_t heads :
         read_by_layer(config, "num_attention_heads_per_layer", sizes.layers, kHeadCounts.most)) {
      if (heads == 0 || heads % sizes.kv_heads != 0) {
        config.refuse("num_attention_heads_per_layer",
                      fmt::format("multiples of num_key_value_heads ({})", sizes.kv_heads));
      }
      decoder.heads.push_back(
          {.heads = heads, .kv_heads = sizes.kv_heads, .head_dim = sizes.head_dim});
    }
  }
  const Json* gating = config.find({"gating"});
  if (gating == nullptr || *gating != false) {
    if (gating != nullptr && *gating != true && *gating != "per-head") {
      config.doubt("gating", "true or \"per-head\"");
    }
    decoder.names.attention_gate = "g_proj";
    decoder.gate_by_head = true;
    decoder.gate_kind = GateKind::softplus;
  }

  MlpSpec missing{};
  missing.intermediate = config.integer({"moe_intermediate_size"}, 512, kWidths);
  decoder.mixture = read_mixture(config, sizes.layers, missing);
  Mixture& mixture = *decoder.mixture;
  mixture.sizes.router = {
      .score = RouterScore::sigmoid,
      .factor = static_cast<float>(config.positive({"moe_routed_scaling_factor"}, 1))};
  if (config.boolean({"moe_apply_router_weight_on_input"}, false)) {
    config.doubt("moe_apply_router_weight_on_input", "false");
  }
  const Json* cap = config.find({"moe_router_logit_softcapping"});
  if (cap != nullptr && *cap != 0) config.doubt("moe_router_logit_softcapping", "0");
  mixture.sizes.shared.intermediate =
      config.integer({"shared_expert_intermediate_size"}, 512, {0, kWidths.most});
  mixture.sparse = sparse_by_types(config, "mlp_layer_types", sparse_from(sizes.layers, 1));
  // vLLM's loader passes over what ends so and finds no module of its name.
  mixture.names.choice_bias = {kChoiceBias, "mlp.experts.e_score_correction_bias"};
  mixture.bias_kept = Kept::in_run;
  mixture.bias_left_zero = true;
  decoder.ignored = {".e_score_correction_bias"};
  decoder.vllm.knows_stage = decoder.vllm.gate_apart = true;
  mixture.names.shared.stored = "mlp.shared_expert";
  return build(decoder);
}

}  // namespace plimsoll::model
