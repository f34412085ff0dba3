// Gemma 3 with its SigLIP tower.
#include <cmath>

#include "model/families/families.h"
#include "model/language_model.h"
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

/// Patches of a side that are averaged to one token.
int64_t tokens_of_side(const ConfigReader& config, const VisionSizes& sizes) {
  const int64_t tokens = config.integer({"mm_tokens_per_image"}, 256, {1, 1 << 20});
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(tokens))));
  const int64_t patches = sizes.image / sizes.patch;
  if (side * side != tokens || side > patches || patches % side != 0) {
    config.refuse("mm_tokens_per_image", "the square of a number that divides a side's patches");
  }
  return patches / side;
}

}  // namespace

ModelSpec make_gemma3_multimodal(const ConfigReader& config) {
  TextPart text{.config = config.json()};
  // Stated for the whole model; vLLM does not look for it in text_config.
  text.config["tie_word_embeddings"] = config.whole().boolean({"tie_word_embeddings"}, true);
  // transformers' class caps attention's logits alone; the head's only where text runs by itself.
  text.config.erase("final_logit_softcapping");
  ModelSpec spec = make_language_model(config, text, make_gemma3);

  const std::string tower = "vision_tower.vision_model";
  const VisionSizes sizes =
      read_image_encoder(config.whole().object_or_empty("vision_config"), ImageEncoder::siglip);
  SpecBuilder add(spec.towers);
  VisionSpec vision;
  vision.kind = VisionKind::gemma3;
  add_image_encoder(tower, ImageEncoder::siglip, sizes, PostNorm::kept, add, vision);
  vision.first.weight = add.parameter("multi_modal_projector.mm_input_projection_weight",
                                      {sizes.hidden, spec.hidden_size});
  vision.first_is_stored_transposed = true;
  vision.merged_norm = {.epsilon = sizes.epsilon, .weight_offset = 1, .present = true};
  vision.merged_norm.weight =
      add.vector("multi_modal_projector.mm_soft_emb_norm.weight", sizes.hidden);
  vision.merging = Merging::averaged;
  vision.merge = tokens_of_side(config.whole(), sizes);
  const ConfigReader whole = config.whole();
  vision.image_token = read_image_token(whole, {"image_token_index", "image_token_id"});
  vision.begin_token = read_image_token(whole, {"boi_token_index"});
  vision.end_token = read_image_token(whole, {"eoi_token_index"});
  spec.vision = std::make_shared<const VisionSpec>(std::move(vision));
  add_newer_spellings(spec);
  ignore_tensors(spec, tower + ".head.");
  ignore_tensors(spec, "vision_tower.head.");
  return spec;
}

}  // namespace plimsoll::model
