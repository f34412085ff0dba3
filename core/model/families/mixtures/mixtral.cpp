// Mixtral: Mistral with experts in place of every MLP.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_mixtral(const ConfigReader& config) {
  Decoder decoder{.family = "mixtral"};
  read_common(config, decoder);
  decoder.windows = uniform_windows(config, decoder.sizes.layers, 0);
  decoder.mixture =
      read_mixture(config, decoder.sizes.layers, {.intermediate = decoder.sizes.intermediate});
  decoder.mixture->names = names_within(kBlockMixture);
  decoder.vllm.experts_in_stages = true;
  ModelSpec spec = build(decoder);
  spec.tensor_words = {{".w1.", ".gate_proj."}, {".w3.", ".up_proj."}, {".w2.", ".down_proj."}};
  return spec;
}

}  // namespace plimsoll::model
