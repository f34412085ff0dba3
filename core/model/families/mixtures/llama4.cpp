// Llama 4's text part: chunks with RoPE between layers that see everything without, experts that
// are weighed on their input.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// Layers with RoPE: 1 in `no_rope_layers`, else all but each interval's last.
std::vector<bool> rotated_layers(const ConfigReader& config, int64_t layers) {
  const int64_t step = config.integer({"no_rope_layer_interval"}, 4, {1, 4096});
  std::vector<bool> rotated(static_cast<size_t>(layers));
  for (int64_t i = 0; i < layers; ++i) rotated[static_cast<size_t>(i)] = (i + 1) % step != 0;
  const Json* list = config.find({"no_rope_layers"});
  if (list == nullptr || list->empty()) return rotated;
  if (!list->is_array() || list->size() != rotated.size()) {
    config.refuse("no_rope_layers", "a list of 0 and 1 for all layers");
  }
  for (size_t i = 0; i < rotated.size(); ++i) {
    if (!(*list)[i].is_number_integer()) config.refuse("no_rope_layers", "a list of 0 and 1");
    rotated[i] = (*list)[i] != 0;
  }
  return rotated;
}

Mixture read_llama4_mixture(const ConfigReader& config, const Sizes& sizes) {
  Mixture mixture = read_mixture(
      config, sizes.layers, {.intermediate = config.integer({"intermediate_size"}, 8192, kWidths)});
  mixture.sparse =
      sparse_every(sizes.layers, config.integer({"interleave_moe_layer_step"}, 1, {1, 4096}));
  mixture.stored = ExpertsStored::transposed;
  mixture.sizes.router = {.score = RouterScore::sigmoid, .normalize = false};
  mixture.sizes.weighs = ExpertWeighs::input;
  mixture.sizes.shared.intermediate = mixture.sizes.intermediate;
  const std::string module = "feed_forward";
  MixtureNames& names = mixture.names;
  names.router = {module + ".router", module + ".router"};
  names.experts = {module + ".experts.routed_experts", module + ".experts"};
  names.expert = {.gate = "", .up = "gate_up_proj", .down = "down_proj"};
  names.shared = {module + ".experts._shared_experts._layer", module + ".shared_expert"};
  return mixture;
}

}  // namespace

ModelSpec make_llama4(const ConfigReader& config) {
  Decoder decoder{.family = "llama4"};
  read_common(config, decoder);
  decoder.mixture = read_llama4_mixture(config, decoder.sizes);
  decoder.sizes.intermediate = config.integer({"intermediate_size_mlp"}, 16384, kWidths);
  decoder.names.mlp = "feed_forward";
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  const std::vector<bool> rotated = rotated_layers(config, decoder.sizes.layers);
  const std::vector<bool> chunked = read_layer_types(config, "layer_types", decoder.sizes.layers,
                                                     "chunked_attention", "full_attention")
                                        .value_or(rotated);
  const int64_t chunk = config.integer({"attention_chunk_size"}, 8192);
  const bool norms = config.boolean({"use_qk_norm"}, true);
  const bool grows = config.boolean({"attn_temperature_tuning"}, true);
  const QueryGrowth growth{.beta = static_cast<float>(config.positive({"attn_scale"}, 0.1)),
                           .period = config.integer({"floor_scale"}, 8192),
                           .shift = 1};
  decoder.qkv_stored = QkvStored::pairs;
  if (decoder.qkv_bias) {
    decoder.vllm.refused = "vLLM puts the weights of Llama 4's q and k in order, not their biases";
  }
  decoder.vllm.knows_stage = decoder.vllm.rotary_in_all = true;
  decoder.vllm.whole_shared = VllmVersion{0, 11, 0};
  ModelSpec spec = build(decoder);
  for (size_t i = 0; i < chunked.size(); ++i) {
    AttentionSpec& attention = spec.layers[i].attention;
    if (chunked[i]) {
      attention.window = chunk;
      attention.window_kind = WindowKind::chunk;
    }
    if (!rotated[i]) {
      attention.rope = -1;
      if (grows) attention.query_growth = growth;
      continue;
    }
    if (!norms) continue;
    attention.q_norm = decoder.norm;
    attention.q_norm.present = true;
    attention.k_norm = attention.q_norm;
    attention.norm_order = NormOrder::after_rope;
  }
  return spec;
}

}  // namespace plimsoll::model
