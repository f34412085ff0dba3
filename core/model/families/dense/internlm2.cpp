// InternLM2: Llama under other names, q, k and v interleaved by KV head.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_internlm2(const ConfigReader& config) {
  Decoder decoder{.family = "internlm2"};
  read_common(config, decoder);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"bias"}, true);
  decoder.qkv_bias_kept = decoder.out_bias_kept = Kept::in_run;
  decoder.qkv_stored = QkvStored::grouped;
  decoder.names = {.embedding = "tok_embeddings",
                   .head = "output",
                   .tied_embedding = "model.tok_embeddings",
                   .attention = "attention",
                   .qkv = "wqkv",
                   .out = "wo",
                   .mlp = "feed_forward",
                   .gate = "w1",
                   .up = "w3",
                   .down = "w2",
                   .attention_norm = "attention_norm",
                   .attention_post_norm = "",
                   .mlp_norm = "ffn_norm",
                   .mlp_post_norm = ""};
  return build(decoder);
}

}  // namespace plimsoll::model
