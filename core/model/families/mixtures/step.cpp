// Step 3.5: layers with unlike heads and RoPEs, a gate for each head, and bounds of gates and ups.
// Step 3: one query for all heads, and one head of keys and values.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

constexpr const char* kSliding = "sliding_attention";

/// Settings of a layer's attention that the config lists by layer.
struct StepLayer {
  std::string type;
  double theta = 0;
  double share = 1;  // of the head that is rotated
  bool rotates = true;
  bool scaled = true;  // `rope_scaling` counts
};

/// An element for each layer, or more, of a list; one number is all layers'. nullptr: there is
/// none.
const Json* at_layer(const ConfigReader& config, std::string_view key, int64_t layer) {
  const Json* list = config.find({key});
  if (list == nullptr || !list->is_array() || list->empty()) return nullptr;
  if (std::ssize(*list) <= layer) config.refuse(key, "an element for each layer");
  return &(*list)[static_cast<size_t>(layer)];
}

double number_at(const ConfigReader& config, std::string_view key, int64_t layer, double missing) {
  const Json* value = at_layer(config, key, layer);
  if (value == nullptr) return missing;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number < 0 || !std::isfinite(number)) config.refuse(key, "numbers from 0");
  return number;
}

bool flag_at(const ConfigReader& config, std::string_view key, int64_t layer, bool missing) {
  const Json* value = at_layer(config, key, layer);
  if (value == nullptr) return missing;
  if (!value->is_boolean()) config.refuse(key, "true and false");
  return value->get<bool>();
}

std::vector<StepLayer> read_layers(const ConfigReader& config, int64_t layers) {
  const auto types = config.texts("layer_types");
  const auto scaled = config.texts("yarn_only_types");
  if (types && std::ssize(*types) < layers) {
    config.refuse("layer_types", fmt::format("a list of {} layers", layers));
  }
  const Json* base = config.find({"rope_theta"});
  const double theta =
      base != nullptr && base->is_array() ? 0 : config.positive({"rope_theta"}, 500000);
  std::vector<StepLayer> read(static_cast<size_t>(layers));
  for (int64_t i = 0; i < layers; ++i) {
    StepLayer& layer = read[static_cast<size_t>(i)];
    if (types) layer.type = (*types)[static_cast<size_t>(i)];
    if (!types && i % 2 == 0) layer.type = kSliding;
    layer.theta = number_at(config, "rope_theta", i, theta);
    if (layer.theta <= 0) config.refuse("rope_theta", "numbers above 0");
    layer.share = number_at(config, "partial_rotary_factors", i, 1);
    layer.rotates = flag_at(config, "use_rope_layers", i, true);
    layer.scaled = !scaled || scaled->empty() || std::ranges::count(*scaled, layer.type) > 0;
  }
  return read;
}

/// One RoPE for all layers of the same base, share and scaling.
void add_ropes(const ConfigReader& config, const std::vector<StepLayer>& layers, Decoder& decoder) {
  using Key = std::tuple<double, double, bool>;
  std::vector<Key> known;
  for (size_t i = 0; i < layers.size(); ++i) {
    const StepLayer& layer = layers[i];
    const Key key{layer.theta, layer.share, layer.scaled};
    auto at = std::ranges::find(known, key);
    if (at == known.end()) {
      const RopeDefaults defaults{.head_dim = decoder.heads[i].head_dim,
                                  .max_position = decoder.sizes.max_position,
                                  .theta = layer.theta,
                                  .theta_key = "",
                                  .share_key = "",
                                  .share = layer.share};
      decoder.ropes.push_back(layer.scaled ? read_rope(config, defaults)
                                           : read_local_rope(config, defaults));
      at = known.insert(known.end(), key);
    }
    decoder.layer_ropes.push_back(layer.rotates ? static_cast<int32_t>(at - known.begin()) : -1);
  }
}

Heads read_heads(const ConfigReader& config, const Heads& missing) {
  Heads heads = missing;
  heads.heads = config.integer({"num_attention_heads"}, missing.heads, kHeadCounts);
  heads.kv_heads = config.integer({"num_attention_groups"}, missing.kv_heads, kHeadCounts);
  heads.head_dim = config.integer({"head_dim"}, missing.head_dim, kHeadDims);
  require_even_groups(config, "num_attention_groups", heads.heads, heads.kv_heads);
  return heads;
}

void read_attention(const ConfigReader& config, Decoder& decoder) {
  Sizes& sizes = decoder.sizes;
  const Heads usual = read_heads(
      config, {.heads = sizes.heads, .kv_heads = sizes.kv_heads, .head_dim = sizes.head_dim});
  sizes.kv_heads = usual.kv_heads;
  const ConfigReader other = config.object_or_empty("attention_other_setting");
  const std::string other_type = other.text({"attention_type"}, "");
  const int64_t window = config.integer({"sliding_window"}, 0, {.least = 0});
  const std::vector<StepLayer> layers = read_layers(config, sizes.layers);
  for (const StepLayer& layer : layers) {
    const bool is_other = !other_type.empty() && layer.type == other_type;
    decoder.heads.push_back(is_other ? read_heads(other, usual) : usual);
    decoder.windows.push_back(layer.type == kSliding ? window : 0);
  }
  add_ropes(config, layers, decoder);
  decoder.qkv_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = true;
  if (config.boolean({"use_head_wise_attn_gate"}, false)) {
    decoder.names.attention_gate = "g_proj";
    decoder.gate_by_head = true;
  }
}

/// Listed in a text, "3,4,5"; else all but the first.
Sparse read_sparse(const ConfigReader& config, int64_t layers) {
  if (config.find({"moe_layers_enum"}) == nullptr) return sparse_from(layers, 1);
  const std::string listed = "," + config.text({"moe_layers_enum"}, "") + ",";
  Sparse sparse(static_cast<size_t>(layers));
  for (int64_t i = 0; i < layers; ++i) {
    sparse[static_cast<size_t>(i)] = listed.find(fmt::format(",{},", i)) != std::string::npos;
  }
  return sparse;
}

Mixture read_step_mixture(const ConfigReader& config, int64_t layers) {
  MlpSpec missing{.intermediate = config.required({"moe_intermediate_size"}, kWidths)};
  missing.experts_per_token = config.integer({"moe_top_k"}, 4, {1, kMostExperts});
  Mixture mixture = read_mixture(config, layers, missing);
  RouterSpec& router = mixture.sizes.router;
  const std::string score = config.text({"moe_router_activation"}, "softmax");
  if (score == "sigmoid") {
    router.score = RouterScore::sigmoid;
  } else if (score != "softmax") {
    config.doubt("moe_router_activation", "softmax or sigmoid");
  }
  router.normalize = config.boolean({"norm_expert_weight"}, true);
  router.factor = static_cast<float>(config.positive({"moe_router_scaling_factor"}, 1));
  for (const char* key : {"use_moe_router_bias", "need_fp32_gate"}) {
    if (!config.boolean({key}, true)) config.refuse(key, "true");
  }
  mixture.router_dtype = DType::f32;
  mixture.sizes.shared.intermediate = config.integer(
      {"share_expert_dim"}, missing.intermediate * mixture.sizes.experts_per_token, kWidths);
  mixture.sparse = read_sparse(config, layers);
  mixture.stored = ExpertsStored::stacked_apart;
  MixtureNames& names = mixture.names;
  names.router = {"moe.experts.gate", "moe.gate"};
  names.choice_bias = {"moe.experts.routed_experts.e_score_correction_bias", "moe.router_bias"};
  names.experts = {"moe.experts.routed_experts", "moe"};
  names.expert = {"gate_proj.weight", "up_proj.weight", "down_proj.weight"};
  names.shared = {"moe.experts._shared_experts._layer", "share_expert"};
  return mixture;
}

/// The gate from which on SiLU is above `limit`: silu(min(gate, this)) = min(silu(gate), limit).
float gate_at(double limit) {
  double low = limit, high = limit + 1;  // silu(x) < x, and silu(x) > x - 1 of x > 0
  while (std::nextafter(low, high) < high) {
    const double middle = low + (high - low) / 2;
    (middle / (1 + std::exp(-middle)) < limit ? low : high) = middle;
  }
  return static_cast<float>(high);
}

/// Limits of a layer's MLP: from above for its activated gate, on both sides for its up; 0: none.
GateLimits limits_at(const ConfigReader& config, std::string_view key, int64_t layer) {
  const double limit = number_at(config, key, layer, 0);
  if (limit == 0) return {};
  return {.gate = gate_at(limit), .up = static_cast<float>(limit)};
}

}  // namespace

ModelSpec make_step3(const ConfigReader& config) {
  Decoder decoder{.family = "step3"};
  read_common(config, decoder);
  Sizes& sizes = decoder.sizes;
  sizes.kv_heads = 1;
  decoder.shared_query = config.integer({"share_q_dim"}, sizes.head_dim, kWidths);
  decoder.mixture = read_step_mixture(config, sizes.layers);
  decoder.mixture->router_dtype.reset();
  decoder.mixture->names.choice_bias = {};
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_step3p5(const ConfigReader& config) {
  Decoder decoder{.family = "step3p5"};
  read_without_positions(config, decoder);
  decoder.norm.weight_offset = 1;
  if (config.text({"att_impl_type"}, "GQA") != "GQA") config.refuse("att_impl_type", "\"GQA\"");
  read_attention(config, decoder);
  decoder.mixture = read_step_mixture(config, decoder.sizes.layers);
  decoder.vllm.knows_stage = decoder.vllm.experts_in_stages = true;
  decoder.vllm.expert_for_ranks = decoder.vllm.rotary_in_all = true;
  ModelSpec spec = build_without_prediction(config, decoder);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    MlpSpec& mlp = spec.layers[i].mlp;
    const auto layer = static_cast<int64_t>(i);
    const GateLimits dense = limits_at(config, "swiglu_limits_shared", layer);
    mlp.shared.limits = dense;
    mlp.limits = mlp.kind == MlpKind::experts ? limits_at(config, "swiglu_limits", layer) : dense;
  }
  return spec;
}

}  // namespace plimsoll::model
