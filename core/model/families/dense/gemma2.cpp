// Gemma 1 and 2 and VaultGemma. Gemma 2: soft caps, every other layer with a window, norms before
// and after, (1 + w) norms.
#include "model/decoder.h"
#include "model/families/dense/gemma.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

void read_gemma2(const ConfigReader& config, Decoder& decoder) {
  read_gemma(config, decoder, {},
             {.window_period = 2, .attention_soft_cap = 50, .final_soft_cap = 30});
}

}  // namespace

// Gemma 1: Gemma 2 without caps, windows and outer norms.
ModelSpec make_gemma(const ConfigReader& config) {
  Decoder decoder{.family = "gemma"};
  read_common(
      config, decoder,
      {.activation_key = config.has("hidden_activation") ? "hidden_activation" : "hidden_act"});
  // Old files say "gelu" and mean the tanh form that the models were trained with.
  if (decoder.activation == Activation::gelu) decoder.activation = Activation::gelu_tanh;
  decoder.norm.weight_offset = 1;
  decoder.embedding_scale = embedding_scale(decoder.sizes.hidden);
  read_plain_attention_biases(config, decoder);
  decoder.vllm.has_normalizer = true;
  return build(decoder);
}

ModelSpec make_vaultgemma(const ConfigReader& config) {
  Decoder decoder{.family = "vaultgemma"};
  read_gemma2(config, decoder);
  decoder.placement = NormPlacement::pre;
  decoder.names.attention_post_norm = decoder.names.mlp_post_norm = "";
  use_transformers_class(decoder);
  decoder.vllm.scalar_scale = true;
  return build(decoder);
}

ModelSpec make_gemma2(const ConfigReader& config) {
  Decoder decoder{.family = "gemma2"};
  read_gemma2(config, decoder);
  decoder.vllm.has_normalizer = decoder.vllm.no_own_head = true;
  decoder.names.tied_embedding = "model.embed_tokens";  // vLLM's class has no lm_head
  return build(decoder);
}

}  // namespace plimsoll::model
