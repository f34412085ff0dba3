// Idefics3 and SmolVLM: Llama, a SigLIP tower over tiles, one projection of shuffled pixels.
#include <fmt/format.h>

#include "model/decoder_config.h"
#include "model/families/families.h"
#include "model/language_model.h"
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

/// vLLM's names: the text part lies in model.text_model, its head outside.
void rename_text(ModelSpec& spec) {
  const std::string module = "language_model.";
  const auto rename = [&](std::string& name) {
    name.erase(0, module.size());
    if (name.starts_with("model.")) name.insert(6, "text_model.");
  };
  for (WeightSpec& weight : spec.weights) rename(weight.name);
  if (!spec.tied_head) return;
  rename(spec.tied_head->table);
  rename(spec.tied_head->head);
}

}  // namespace

ModelSpec make_idefics3(const ConfigReader& config) {
  TextPart text{.config = config.json(), .tensors = ""};
  text.config["tie_word_embeddings"] = is_tied_anywhere(config);
  ModelSpec spec = make_language_model(config, text, make_llama);
  rename_text(spec);
  spec.tensor_prefixes.emplace_back("model.", "model.text_model.");

  const ConfigReader whole = config.whole();
  const VisionSizes sizes =
      read_image_encoder(whole.object_or_empty("vision_config"), ImageEncoder::siglip);
  const int64_t fold = whole.integer({"scale_factor"}, 2, {1, 64});
  const int64_t patches = sizes.image / sizes.patch;
  if (patches % fold != 0) {
    whole.refuse("scale_factor", fmt::format("a divisor of the {} patches of a side", patches));
  }
  const std::string projection = "model.connector.modality_projection.proj";
  VisionSpec vision;
  vision.kind = VisionKind::idefics3;
  vision.merge = fold;
  SpecBuilder add(spec.towers);
  add_image_encoder("model.vision_model", ImageEncoder::siglip, sizes, PostNorm::kept, add, vision);
  vision.first = add.linear(projection, {Rows::all(projection, spec.hidden_size)},
                            sizes.hidden * fold * fold, {});
  vision.image_token = read_image_token(whole, {"image_token_id"});
  spec.vision = std::make_shared<const VisionSpec>(std::move(vision));
  return spec;
}

}  // namespace plimsoll::model
