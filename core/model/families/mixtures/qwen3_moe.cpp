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

Mixture read_qwen_mixture(const ConfigReader& config, int64_t layers) {
  Mixture mixture = read_mixture(
      config, layers, {.intermediate = config.required({"moe_intermediate_size"}, kWidths)});
  mixture.sizes.router.normalize = config.boolean({"norm_topk_prob"}, false);
  mixture.sparse = sparse_layers(config, layers);
  return mixture;
}

void add_gated_shared(const ConfigReader& config, Mixture& mixture) {
  mixture.sizes.shared.intermediate =
      config.integer({"shared_expert_intermediate_size"}, 0, {0, kWidths.most});
  MixtureNames& names = mixture.names;
  names.shared.stored = "mlp.shared_expert";
  names.shared_gate = {names.shared.engine + ".expert_gate", "mlp.shared_expert_gate"};
}

ModelSpec make_qwen3_moe(const ConfigReader& config) {
  Decoder decoder{.family = "qwen3_moe"};
  read_common(config, decoder);
  if (config.boolean({"use_sliding_window"}, false)) {
    decoder.windows =
        uniform_windows(config, decoder.sizes.layers, config.has("sliding_window") ? 0 : 4096);
  }
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.out_bias_kept = Kept::in_run;
  decoder.qk_norm = true;
  decoder.mixture = read_qwen_mixture(config, decoder.sizes.layers);
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
  read_common(config, decoder);
  decoder.windows = qwen_windows(config, decoder.sizes.layers);
  decoder.qkv_bias = true;
  if (!config.boolean({"qkv_bias"}, true)) decoder.qkv_bias_kept = Kept::in_vllm;
  decoder.mixture = read_qwen_mixture(config, decoder.sizes.layers);
  add_gated_shared(config, *decoder.mixture);
  decoder.vllm.expert_for_ranks = true;
  return build(decoder);
}

}  // namespace plimsoll::model
