// Llama 1, 2, 3, 3.x.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_llama(const ConfigReader& config) {
  Decoder decoder{.family = "llama"};
  read_common(config, decoder);
  const bool bias = config.boolean({"attention_bias", "bias"}, false);
  decoder.qkv_bias = bias;
  decoder.out_bias = bias;
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  add_llama_biases(config, decoder);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
