// Qwen 1.5, 2 and 2.5: Llama with biases on q, k and v.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_qwen2(const ConfigReader& config) {
  Decoder decoder{.family = "qwen2"};
  read_common(config, decoder);
  decoder.windows = qwen_windows(config, decoder.sizes.layers);
  decoder.qkv_bias = true;
  decoder.vllm.knows_stage = true;
  if (config.boolean({"use_sliding_window"}, false) && config.find({"sliding_window"})) {
    const int64_t from = config.integer({"max_window_layers"}, 28, {.least = 0});
    if (from < decoder.sizes.layers) decoder.vllm.windows_from = from;
  }
  return build(decoder);
}

}  // namespace plimsoll::model
