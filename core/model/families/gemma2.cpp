// Gemma 2: soft caps, every other layer with a window, norms before and after, (1 + w) norms.
#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/gemma.h"

namespace plimsoll::model {

ModelSpec make_gemma2(const ConfigReader& config) {
  Decoder decoder{.family = "gemma2"};
  read_gemma(config, decoder,
             {.sizes = {.vocab = 256000,
                        .hidden = 2304,
                        .intermediate = 9216,
                        .layers = 26,
                        .heads = 8,
                        .kv_heads = 4,
                        .head_dim = 256,
                        .max_position = 8192}},
             {.window_period = 2, .attention_soft_cap = 50, .final_soft_cap = 30});
  decoder.names.tied_embedding = "model.embed_tokens";  // vLLM's class has no lm_head
  return build(decoder);
}

}  // namespace plimsoll::model
