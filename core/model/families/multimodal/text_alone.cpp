// Multimodal models whose tower nothing here computes: their text part answers, lines with images
// are refused.
#include "model/families/families.h"
#include "model/language_model.h"

namespace plimsoll::model {
namespace {

/// Qwen3-VL's text part is Qwen3 but for sums with the tower's deeper layers, which text has none
/// of.
ModelSpec (*text_family(const ConfigReader& text))(const ConfigReader&) {
  const std::string type = text.text({"model_type"}, "");
  if (type == "qwen3_vl_text") return make_qwen3;
  if (type == "qwen3_vl_moe_text") return make_qwen3_moe;
  return find_text_family(text).make;
}

}  // namespace

ModelSpec make_text_alone(const ConfigReader& config) {
  TextPart text{.config = config.json()};
  constexpr const char* kTied = "tie_word_embeddings";
  if (config.has(kTied) || config.whole().has(kTied)) {
    text.config[kTied] = is_tied_anywhere(config);
  }
  // Some text parts name the whole model's architecture.
  if (config.texts("architectures") == config.whole().texts("architectures")) {
    text.config.erase("architectures");
  }
  ModelSpec spec = make_language_model(config, text, text_family(config.reading(text.config)));
  spec.vllm.refused = "the weights of its tower are not known";
  add_newer_spellings(spec);
  for (const char* module :
       {"vision_tower.", "vision_model.", "visual.", "multi_modal_projector.", "mm_projector.",
        "embed_vision.", "audio_tower.", "embed_audio.", "mtp."}) {
    ignore_tensors(spec, module);
  }
  return spec;
}

}  // namespace plimsoll::model
