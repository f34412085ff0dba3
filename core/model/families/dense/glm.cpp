// GLM-4 as transformers has it: RoPE turns neighbours in half of the head, gate and up stored as
// one; GLM-4-0414 (Glm4) with norms behind the branches too.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

Decoder read_glm(const ConfigReader& config, const char* family) {
  Decoder decoder{.family = family};
  // Half of a head is rotated where the config does not say, also for GLM-4.1V's and GLM-OCR's
  // texts: vLLM's class assumes it for them.
  read_common(config, decoder, {.share = 0.5});
  decoder.qkv_bias = config.boolean({"attention_bias"}, !config.describes());
  decoder.rope_pairs = RopePairs::neighbours;
  decoder.gate_up_stored = GateUpStored::fused;
  decoder.vllm.knows_stage = true;
  return decoder;
}

}  // namespace

ModelSpec make_glm(const ConfigReader& config) {
  Decoder decoder = read_glm(config, "glm");
  use_transformers_class(decoder);
  decoder.gate_up_cut = InterleavedCut::in_place;
  return build(decoder);
}

ModelSpec make_glm4(const ConfigReader& config) {
  Decoder decoder = read_glm(config, "glm4");
  decoder.placement = NormPlacement::sandwich;
  decoder.names.attention_post_norm = "post_self_attn_layernorm";
  decoder.names.mlp_post_norm = "post_mlp_layernorm";
  decoder.order = {LayerPart::attention,           LayerPart::mlp,
                   LayerPart::attention_norm,      LayerPart::mlp_norm,
                   LayerPart::attention_post_norm, LayerPart::mlp_post_norm};
  return build(decoder);
}

}  // namespace plimsoll::model
