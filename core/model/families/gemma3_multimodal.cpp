// Gemma 3 with its SigLIP tower.
#include "model/families/families.h"
#include "model/language_model.h"
#include "model/towers/towers.h"

namespace plimsoll::model {

ModelSpec make_gemma3_multimodal(const ConfigReader& config) {
  TextPart text{.config = config.json()};
  // Stated for the whole model; vLLM does not look for it in text_config.
  text.config["tie_word_embeddings"] = config.whole().boolean({"tie_word_embeddings"}, true);
  ModelSpec spec = make_language_model(config, text, make_gemma3);

  const std::string tower = "vision_tower.vision_model";
  const VisionSizes sizes =
      read_image_encoder(config.whole().object_or_empty("vision_config"), ImageEncoder::siglip);
  SpecBuilder add(spec.towers);
  add_image_encoder(tower, ImageEncoder::siglip, sizes, PostNorm::kept, add);
  add.parameter("multi_modal_projector.mm_input_projection_weight",
                {sizes.hidden, spec.hidden_size});
  add.vector("multi_modal_projector.mm_soft_emb_norm.weight", sizes.hidden);
  add_newer_spellings(spec);
  ignore_tensors(spec, tower + ".head.");
  return spec;
}

}  // namespace plimsoll::model
