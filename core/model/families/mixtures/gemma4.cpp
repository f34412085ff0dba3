// Gemma 4. Its mixtures: an MLP and experts side by side, each with norms of its own; full layers
// have heads of another size, whose values are their keys. Its small models: inputs by layer, and
// layers that read the keys of earlier ones.
#include <algorithm>
#include <cmath>

#include "model/families/dense/gemma.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

ConfigReader rope_parameters(const ConfigReader& config, std::string_view layer_type) {
  return config.object_or_empty("rope_parameters").object_or_empty(layer_type);
}

/// RoPE of layers with full attention: the first frequencies of the whole head's are used, the rest
/// are 0.
Rope proportional_rope(const ConfigReader& config, const Heads& heads, int64_t max_position) {
  const ConfigReader parameters = rope_parameters(config, "full_attention");
  const std::string type = parameters.text({"rope_type"}, "proportional");
  if (type != "proportional" && type != "default") {
    config.doubt("rope_parameters", "of kinds proportional and default");
  }
  Rope rope = plain_rope(config, parameters.positive({"rope_theta"}, 1000000), heads.head_dim,
                         max_position);
  if (type == "default") return rope;
  const double share = parameters.positive({"partial_rotary_factor"}, 0.25);
  const auto turning = static_cast<size_t>(share * static_cast<double>(heads.head_dim) / 2);
  auto& frequencies = rope.spec.table.inverse_frequencies;
  for (size_t i = turning; i < frequencies.size(); ++i) frequencies[i] = 0;
  return rope;
}

/// Settings of full layers alone, which transformers 5 saves as `per_layer_config`, alike for all
/// full layers.
ConfigReader full_layer(const ConfigReader& config) {
  const Json* layers = config.find({"per_layer_config"});
  if (layers == nullptr || !layers->is_object() || layers->empty())
    return config.object_or_empty("per_layer_config");
  const auto differs = [&](const Json& layer) { return layer != layers->front(); };
  if (std::ranges::any_of(*layers, differs)) {
    config.refuse("per_layer_config", "the same of each full layer");
  }
  return config.object_or_empty("per_layer_config").object_or_empty(layers->begin().key());
}

Heads read_full_heads(const ConfigReader& config, const Heads& windowed) {
  Heads full = windowed;
  full.head_dim = full_layer(config)
                      .integer({"head_dim"}, kHeadDims)
                      .value_or(config.integer({"global_head_dim"}, 512, kHeadDims));
  full.keys_are_values = config.boolean({"attention_k_eq_v"}, false);
  if (full.keys_are_values) {
    full.kv_heads = full_layer(config)
                        .integer({"num_key_value_heads"}, kHeadCounts)
                        .value_or(config.integer({"num_global_key_value_heads"}, windowed.kv_heads,
                                                 kHeadCounts));
  }
  require_even_groups(config, "num_global_key_value_heads", full.heads, full.kv_heads);
  return full;
}

/// vLLM's class goes by the experts' number alone.
bool has_experts(const ConfigReader& config, Decoder& decoder) {
  const bool counted = config.find({"num_experts"}) != nullptr;
  const bool enabled = config.boolean({"enable_moe_block"}, false);
  if (counted != enabled) {
    decoder.vllm.refused =
        "vLLM's class has experts by \"num_experts\", which \"enable_moe_block\" contradicts";
  }
  return config.describes() ? counted : enabled;
}

// The MLP stands as the shared expert of the others.
Mixture read_gemma_mixture(const ConfigReader& config, const Decoder& decoder) {
  MlpSpec missing{};
  missing.intermediate = config.integer({"moe_intermediate_size"}, 704, kWidths);
  Mixture mixture = read_mixture(config, decoder.sizes.layers, missing);
  mixture.norm = decoder.norm;
  mixture.sizes.shared.intermediate = decoder.sizes.intermediate;
  mixture.sizes.router.logits_factor =
      static_cast<float>(1 / std::sqrt(static_cast<double>(decoder.sizes.hidden)));
  mixture.stored = ExpertsStored::stacked;
  MixtureNames& names = mixture.names;
  names.router = {"router.proj", "router.proj"};
  names.experts = {"experts.routed_experts", "experts"};
  names.expert = {.gate = "", .up = "gate_up_proj", .down = "down_proj"};
  names.shared = {"mlp", "mlp"};
  names.order = {MixturePart::shared};
  names.late = {MixturePart::router_scales, MixturePart::router, MixturePart::experts,
                MixturePart::branch_norms};
  return mixture;
}

}  // namespace

ModelSpec make_gemma4(const ConfigReader& config) {
  Decoder decoder{.family = "gemma4"};
  read_without_positions(config, decoder, {.activation_key = "hidden_activation"});
  const Sizes& sizes = decoder.sizes;
  read_gemma_attention(config, decoder, 0);
  decoder.windows = read_windows(config, sizes.layers, config.integer({"sliding_window"}, 512),
                                 [](int64_t layer) { return (layer + 1) % 6 != 0; });
  decoder.windows.back() = 0;  // whatever the config says of the last layer
  const Heads windowed{
      .heads = sizes.heads, .kv_heads = sizes.kv_heads, .head_dim = sizes.head_dim};
  const Heads full = read_full_heads(config, windowed);
  for (const int64_t window : decoder.windows)
    decoder.heads.push_back(window > 0 ? windowed : full);
  const int64_t first_shared = share_keys(config, decoder);
  const int64_t wider = config.boolean({"use_double_wide_mlp"}, false) ? 2 : 1;
  for (int64_t i = 0; i < sizes.layers; ++i) {
    decoder.widths.push_back(sizes.intermediate * (i < first_shared ? 1 : wider));
  }
  decoder.layer_input = config.integer({"hidden_size_per_layer_input"}, 256, {0, kWidths.most});
  if (decoder.layer_input > 0) {
    decoder.layer_input_ids =
        config.integer({"vocab_size_per_layer_input"}, sizes.vocab, {sizes.vocab, sizes.vocab});
  }
  const double theta = rope_parameters(config, "sliding_attention").positive({"rope_theta"}, 10000);
  decoder.ropes = {proportional_rope(config, full, sizes.max_position),
                   plain_rope(config, theta, sizes.head_dim, sizes.max_position)};
  decoder.names.factor = "layer_scalar";
  decoder.order = {LayerPart::factor,
                   LayerPart::attention,
                   LayerPart::mlp,
                   LayerPart::attention_norm,
                   LayerPart::attention_post_norm,
                   LayerPart::mlp_norm,
                   LayerPart::mlp_post_norm,
                   LayerPart::input,
                   LayerPart::input_norm,
                   LayerPart::late_mlp};
  if (has_experts(config, decoder)) decoder.mixture = read_gemma_mixture(config, decoder);
  ModelSpec spec = build(decoder);
  name_cross_decoder(spec, first_shared);
  return spec;
}

}  // namespace plimsoll::model
