// Mistral: Llama with a window over all layers.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_mistral(const ConfigReader& config) {
  Decoder decoder{.family = "mistral"};
  read_common(config, decoder);
  // Null means no window; a config without the key means the class's 4096.
  decoder.windows = uniform_windows(config, decoder.sizes.layers,
                                    config.has("sliding_window") || config.describes() ? 0 : 4096);
  add_llama_biases(config, decoder);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
