// Phi-3, Phi-3.5-mini, Phi-4: fused q, k, v and gate, up; longrope; partial rotary.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_phi3(const ConfigReader& config) {
  Decoder decoder{.family = "phi3"};
  read_common(config, decoder,
              {.sizes = {.vocab = 32064,
                         .hidden = 3072,
                         .intermediate = 8192,
                         .layers = 32,
                         .heads = 32,
                         .max_position = 4096},
               .epsilon = 1e-5,
               .original_max_position = 4096});
  decoder.windows = uniform_windows(config, decoder.sizes.layers, 0);
  decoder.qkv_stored = QkvStored::fused;
  decoder.gate_up_stored = GateUpStored::fused;
  add_llama_biases(config, decoder);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
