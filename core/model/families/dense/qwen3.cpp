// Qwen3: norms on q and k, a head size of its own.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_qwen3(const ConfigReader& config) {
  Decoder decoder{.family = "qwen3"};
  read_common(config, decoder);
  decoder.windows = qwen_windows(config, decoder.sizes.layers);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.out_bias_kept = Kept::in_run;
  decoder.qk_norm = true;
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
