// Qwen3-Next, Qwen3.5 and OLMo Hybrid: three layers of the gated delta rule, then one of attention,
// whose output Qwen gates.
#include "model/families/recurrent/gated_delta.h"

#include "model/families/families.h"
#include "model/families/mixtures/qwen_mixture.h"

namespace plimsoll::model {
namespace {

/// `missing`: heads and their sizes.
RecurrentTable read_delta(const ConfigReader& config, const RecurrentSpec& missing) {
  constexpr IntegerRange kSizes{1, 65536};
  RecurrentTable table{.module = "linear_attn"};
  RecurrentSpec& sizes = table.sizes;
  sizes.kind = RecurrentKind::gated_delta;
  sizes.heads = config.integer({"linear_num_value_heads"}, missing.heads, kSizes);
  sizes.head_dim = config.integer({"linear_value_head_dim"}, missing.head_dim, kSizes);
  sizes.groups = config.integer({"linear_num_key_heads"}, missing.groups, kSizes);
  sizes.state = config.integer({"linear_key_head_dim"}, missing.state, kSizes);
  if (sizes.heads % sizes.groups != 0) {
    config.doubt("linear_num_key_heads", "a divisor of linear_num_value_heads");
  }
  sizes.conv = {.width = 2 * sizes.groups * sizes.state + sizes.width(),
                .taps = config.integer({"linear_conv_kernel_dim"}, 4, {1, kMostTaps}),
                .activation = Activation::silu};
  sizes.norm_groups = sizes.heads;
  sizes.gated = RecurrentSpec::Gated::after_norm;
  return table;
}

/// `layer_types`, else attention in every fourth layer.
std::vector<LayerParts> read_parts(const ConfigReader& config, int64_t layers) {
  const int64_t period = config.integer({"full_attention_interval"}, 4, {1, 4096});
  return attention_or_recurrent(
      read_layer_types(config, "layer_types", layers, "full_attention", "linear_attention")
          .value_or(sparse_every(layers, period)));
}

}  // namespace

Decoder read_qwen(const ConfigReader& config, const char* family) {
  Decoder decoder{.family = family};
  read_common(config, decoder);
  decoder.norm.weight_offset = 1;
  decoder.qk_norm = true;
  // Always in transformers; vLLM asks the config.
  decoder.query_gates = !config.describes() || config.boolean({"attn_output_gate"}, true);
  decoder.recurrent =
      read_delta(config, {.heads = 32, .head_dim = 128, .groups = 16, .state = 128});
  decoder.recurrent->sizes.norm = {.epsilon = decoder.norm.epsilon, .present = true};
  read_plain_attention_biases(config, decoder);
  decoder.vllm.knows_stage = decoder.vllm.table_everywhere = true;
  decoder.vllm.counted_positions = true;
  decoder.vllm.whole_shared = VllmVersion{0, 20, 0};
  return decoder;
}

ModelSpec make_qwen3_5(const ConfigReader& config) {
  Decoder decoder = read_qwen(config, "qwen3_5");
  decoder.parts = read_parts(config, decoder.sizes.layers);
  return build(decoder);
}

ModelSpec make_qwen3_5_moe(const ConfigReader& config) {
  Decoder decoder = read_qwen(config, "qwen3_5_moe");
  decoder.parts = read_parts(config, decoder.sizes.layers);
  decoder.mixture = read_qwen_mixture(config, decoder.sizes.layers);
  Mixture& mixture = *decoder.mixture;
  mixture.sizes.router.normalize = true;
  mixture.stored = ExpertsStored::stacked;
  mixture.names.expert = {.gate = "", .up = "gate_up_proj", .down = "down_proj"};
  mixture.names.router.engine = "mlp.experts.gate";
  decoder.vllm.experts_in_stages = decoder.vllm.expert_for_ranks = true;
  add_gated_shared(config, mixture);
  return build(decoder);
}

ModelSpec make_qwen3_next(const ConfigReader& config) {
  Decoder decoder = read_qwen(config, "qwen3_next");
  decoder.parts = read_parts(config, decoder.sizes.layers);
  decoder.recurrent->stored = DeltaStored::by_key_head;
  decoder.vllm.head_everywhere = true;
  decoder.vllm.experts_in_stages = decoder.vllm.expert_for_ranks = true;
  decoder.mixture = read_qwen_mixture(config, decoder.sizes.layers);
  decoder.mixture->sizes.router.normalize = config.boolean({"norm_topk_prob"}, true);
  decoder.mixture->names.router.engine = "mlp.experts.gate";
  add_gated_shared(config, *decoder.mixture);
  return build(decoder);
}

ModelSpec make_olmo_hybrid(const ConfigReader& config) {
  Decoder decoder{.family = "olmo_hybrid"};
  read_common(config, decoder);
  // Attention's layers are OLMo 2's.
  use_outer_norms(decoder);
  decoder.qk_norm = true;
  decoder.head_norm.weights = HeadNormStyle::Weights::all_heads;
  decoder.recurrent_attention_norm = "input_layernorm";
  decoder.recurrent_mlp_norm = "post_attention_layernorm";
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.parts = read_parts(config, decoder.sizes.layers);
  const auto rope = config.object("rope_parameters");
  const bool no_base = rope && rope->has("rope_theta") && rope->find({"rope_theta"}) == nullptr;
  const bool no_rope = config.has("rope_parameters") && !config.find({"rope_parameters"});
  if (no_base || no_rope) decoder.ropes.clear();
  const int64_t heads = decoder.sizes.heads;
  const int64_t key = 3 * decoder.sizes.hidden / (4 * heads);
  decoder.recurrent =
      read_delta(config, {.heads = heads, .head_dim = 2 * key, .groups = heads, .state = key});
  RecurrentTable& table = *decoder.recurrent;
  table.stored = DeltaStored::all_apart;
  table.sizes.norm = {.epsilon = 1e-5f, .present = true};  // not in the config
  if (config.boolean({"linear_allow_neg_eigval"}, true)) table.sizes.beta_factor = 2;
  decoder.vllm.refused = "vLLM 0.32.0 does not load OLMo Hybrid";
  return build(decoder);
}

}  // namespace plimsoll::model
