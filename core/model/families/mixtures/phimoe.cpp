// Phi-3.5-MoE: LayerNorms, biases and experts chosen by sparse mixing.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_phimoe(const ConfigReader& config) {
  Decoder decoder{.family = "phimoe"};
  read_common(config, decoder);
  use_layer_norms(config, decoder, "rms_norm_eps", NormTensors::weight_and_bias);
  decoder.qkv_bias = decoder.out_bias = true;
  if (!config.boolean({"attention_bias"}, false)) {
    decoder.qkv_bias_kept = decoder.out_bias_kept = Kept::in_vllm;
  }
  const int64_t window = config.integer({"sliding_window"}, 0);
  if (window > 0 && window < decoder.sizes.max_position) {
    decoder.windows.assign(static_cast<size_t>(decoder.sizes.layers), window);
  }
  decoder.mixture =
      read_mixture(config, decoder.sizes.layers, {.intermediate = decoder.sizes.intermediate});
  MlpSpec& sizes = decoder.mixture->sizes;
  if (sizes.experts_per_token != 2) config.doubt("num_experts_per_tok", "2");
  const Json* noise = config.find({"router_jitter_noise"});
  const bool silent = noise != nullptr && *noise == 0;
  const double jitter = silent ? 0 : config.positive({"router_jitter_noise"}, 0.01);
  sizes.router = {.score = RouterScore::sparsemixer, .nearness = static_cast<float>(2 * jitter)};
  decoder.mixture->names = names_within(kBlockMixture);
  ModelSpec spec = build(decoder);
  const WeightId head_bias = SpecBuilder(spec).vector("lm_head.bias", spec.vocab_size);
  WeightSpec& bias = spec.weights.back();
  bias.split = Split::vocabulary;
  if (config.boolean({"lm_head_bias"}, false)) {
    spec.head_bias = head_bias;
  } else {
    bias.kept = Kept::in_vllm;
  }
  return spec;
}

// Under the name that transformers saves.
ModelSpec make_transformers_phimoe(const ConfigReader& config) {
  ModelSpec spec = make_phimoe(config);
  spec.vllm.refused = "vLLM 0.32.0 knows this class as PhiMoEForCausalLM alone";
  return spec;
}

}  // namespace plimsoll::model
