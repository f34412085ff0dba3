// Phi-3, Phi-3.5-mini, Phi-4: fused q, k, v and gate, up; longrope; partial rotary.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_phi3(const ConfigReader& config) {
  Decoder decoder{.family = "phi3"};
  read_common(config, decoder, {.original_max_position = 4096});
  decoder.windows = uniform_windows(config, decoder.sizes.layers, 0);
  decoder.qkv_stored = QkvStored::fused;
  decoder.gate_up_stored = GateUpStored::fused;
  add_llama_biases(config, decoder);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
