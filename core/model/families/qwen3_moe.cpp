// Qwen3-MoE: Qwen3 with experts in the layers that decoder_sparse_step and mlp_only_layers leave.
#include <algorithm>

#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

void choose_sparse_layers(const ConfigReader& config, ExpertsTable& experts) {
  const int64_t step = config.integer({"decoder_sparse_step"}, 1, {1, 4096});
  for (size_t i = 0; i < experts.sparse.size(); ++i) {
    experts.sparse[i] = (static_cast<int64_t>(i) + 1) % step == 0;
  }
  const Json* plain = config.find({"mlp_only_layers"});
  if (plain == nullptr) return;
  if (!plain->is_array()) config.refuse("mlp_only_layers", "a list of layer numbers");
  for (const Json& layer : *plain) {
    if (!layer.is_number_integer() || layer < 0)
      config.refuse("mlp_only_layers", "a list of layer numbers");
    const auto index = layer.get<uint64_t>();
    if (index < experts.sparse.size()) experts.sparse[index] = false;
  }
}

}  // namespace

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
  decoder.experts =
      read_experts(config, decoder.sizes,
                   {.intermediate = config.integer({"moe_intermediate_size"}, 768, kWidths),
                    .experts = 128,
                    .experts_per_token = 8});
  decoder.experts->sizes.normalize_routing = config.boolean({"norm_topk_prob"}, false);
  decoder.experts->module = "mlp";
  decoder.experts->engine_gate = "experts.gate";  // the alias that vLLM saves it under
  decoder.experts->names = {.gate = "gate_proj", .up = "up_proj", .down = "down_proj"};
  choose_sparse_layers(config, *decoder.experts);
  return build(decoder);
}

}  // namespace plimsoll::model
