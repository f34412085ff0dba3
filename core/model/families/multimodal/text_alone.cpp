// Multimodal models whose tower nothing here computes: their text part answers, lines with pictures
// are refused.
#include "model/families/families.h"
#include "model/language_model.h"

namespace plimsoll::model {

ModelSpec make_text_alone(const ConfigReader& config) {
  TextPart text{.config = config.json()};
  text.config["tie_word_embeddings"] = is_tied_anywhere(config);
  // Some text parts name the whole model's architecture.
  if (config.texts("architectures") == config.whole().texts("architectures")) {
    text.config.erase("architectures");
  }
  // Qwen3 but for sums with the tower's deeper layers, which text has none of.
  if (config.text({"model_type"}, "") == "qwen3_vl_text") text.config["model_type"] = "qwen3";
  const Family& family = find_text_family(config.reading(text.config));
  ModelSpec spec = make_language_model(config, text, family.make);
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
