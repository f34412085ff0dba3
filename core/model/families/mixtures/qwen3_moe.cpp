// Qwen2-MoE and Qwen3-MoE: Qwen with experts in the layers that decoder_sparse_step and
// mlp_only_layers leave.
#include <algorithm>

#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/mixtures/qwen_mixture.h"

namespace plimsoll::model {
namespace {

Sparse sparse_layers(const ConfigReader& config, int64_t layers) {
  Sparse sparse = sparse_every(layers, config.integer({"decoder_sparse_step"}, 1, {1, 4096}));
  const Json* plain = config.find({"mlp_only_layers"});
  if (plain == nullptr) return sparse;
  if (!plain->is_array()) config.refuse("mlp_only_layers", "a list of layer numbers");
  for (const Json& layer : *plain) {
    if (!layer.is_number_integer() || layer < 0)
      config.refuse("mlp_only_layers", "a list of layer numbers");
    const auto index = layer.get<uint64_t>();
    if (index < sparse.size()) sparse[index] = false;
  }
  return sparse;
}

}  // namespace

Mixture read_qwen_mixture(const ConfigReader& config, int64_t layers, const MlpSpec& missing) {
  MlpSpec sizes = missing;
  sizes.intermediate = config.integer({"moe_intermediate_size"}, missing.intermediate, kWidths);
  Mixture mixture = read_mixture(config, layers, sizes);
  mixture.sizes.router.normalize = config.boolean({"norm_topk_prob"}, false);
  mixture.sparse = sparse_layers(config, layers);
  return mixture;
}

void add_gated_shared(const ConfigReader& config, int64_t missing, Mixture& mixture) {
  mixture.sizes.shared.intermediate =
      config.integer({"shared_expert_intermediate_size"}, missing, {0, kWidths.most});
  MixtureNames& names = mixture.names;
  names.shared.stored = "mlp.shared_expert";
  names.shared_gate = {names.shared.engine + ".expert_gate", "mlp.shared_expert_gate"};
}

ModelSpec make_qwen3_moe(const ConfigReader& config) {
  Decoder decoder{.family = "qwen3_moe"};
  read_common(config, decoder,
              {.sizes = {.vocab = 151936,
                         .hidden = 2048,
                         .intermediate = 6144,
                         .layers = 24,
                         .heads = 32,
                         .kv_heads = 4,
                         .max_position = 32768}});
  if (config.boolean({"use_sliding_window"}, false)) {
    decoder.windows =
        uniform_windows(config, decoder.sizes.layers, config.has("sliding_window") ? 0 : 4096);
  }
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.out_bias_kept = Kept::in_run;
  decoder.qk_norm = true;
  decoder.mixture = read_qwen_mixture(
      config, decoder.sizes.layers, {.intermediate = 768, .experts = 128, .experts_per_token = 8});
  decoder.mixture->names.router.engine = "mlp.experts.gate";  // the alias that vLLM saves it under
  decoder.vllm.experts_in_stages = decoder.vllm.expert_for_ranks = true;
  decoder.vllm.gate_has_alias = true;
  if (config.text({"model_type"}, "") == "qwen3_vl_moe_text") {
    decoder.mixture->stored = ExpertsStored::transposed;
    decoder.mixture->names.expert = {.gate = "", .up = "gate_up_proj", .down = "down_proj"};
    decoder.mixture->sizes.router.normalize = true;
  }
  decoder.vllm.quantizes_router = true;
  return build(decoder);
}

ModelSpec make_qwen2_moe(const ConfigReader& config) {
  Decoder decoder{.family = "qwen2_moe"};
  read_common(config, decoder,
              {.sizes = {.vocab = 151936,
                         .hidden = 2048,
                         .intermediate = 5632,
                         .layers = 24,
                         .heads = 16,
                         .kv_heads = 16,
                         .max_position = 32768}});
  decoder.windows = qwen_windows(config, decoder.sizes.layers);
  decoder.qkv_bias = true;
  if (!config.boolean({"qkv_bias"}, true)) decoder.qkv_bias_kept = Kept::in_vllm;
  decoder.mixture = read_qwen_mixture(
      config, decoder.sizes.layers, {.intermediate = 1408, .experts = 60, .experts_per_token = 4});
  add_gated_shared(config, 5632, *decoder.mixture);
  decoder.vllm.expert_for_ranks = true;
  return build(decoder);
}

}  // namespace plimsoll::model
