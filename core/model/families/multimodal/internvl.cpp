// InternVL: InternViT, a projector over shuffled pixels, one of several text models.
#include "model/decoder_config.h"
#include "model/families/families.h"
#include "model/language_model.h"
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

void add_projector(const ConfigReader& config, int64_t vision, int64_t hidden, SpecBuilder& add,
                   VisionSpec& spec) {
  const auto fold = static_cast<int64_t>(1 / config.positive({"downsample_ratio"}, 0.5));
  if (fold < 1 || fold > 64) config.refuse("downsample_ratio", "a number from 1/64 to 1");
  const int64_t width = vision * fold * fold;
  spec.kind = VisionKind::internvl;
  spec.merge = fold;
  spec.merged_norm = add.norm("mlp1.0", width, {.kind = NormKind::layer});
  spec.first = add.linear("mlp1.1", {Rows::all("mlp1.1", hidden)}, width, {.bias = true});
  spec.second = add.linear("mlp1.3", {Rows::all("mlp1.3", hidden)}, hidden, {.bias = true});
}

}  // namespace

ModelSpec make_internvl(const ConfigReader& config) {
  TextPart text{.config = config.json()};
  const ConfigReader whole = config.whole();
  if (whole.find({"tie_word_embeddings"}) != nullptr) {
    text.config["tie_word_embeddings"] = whole.boolean({"tie_word_embeddings"}, false);
  }
  ModelSpec spec =
      make_language_model(config, text, find_text_family(config.reading(text.config)).make);
  // A head that the text part alone ties stays tied in vLLM, whatever the checkpoint holds.
  if (whole.find({"tie_word_embeddings"}) == nullptr) spec.tied_head.reset();

  InternVit vit = read_intern_vit(whole.object_or_empty("vision_config"));
  const int64_t selected = whole.integer({"select_layer"}, -1, {-4096, 4096});
  vit.sizes.layers =
      layers_until(whole, "select_layer", selected < 0 ? selected : selected + 1, vit.sizes);
  SpecBuilder add(spec.towers);
  VisionSpec vision;
  add_intern_vit("vision_model", vit, add, vision);
  add_projector(whole, vit.sizes.hidden, spec.hidden_size, add, vision);
  spec.vision = std::make_shared<const VisionSpec>(std::move(vision));
  // Parts of other tasks, which vLLM's class leaves out.
  for (const char* prefix :
       {"action_embed", "temporal_embed", "track_embed", "box_token", "cg_criterion", "cg_model",
        "loc_encoder", "loc_decoder", "sam", "temporal_token", "track_token"}) {
    spec.ignored_prefixes.emplace_back(prefix);
  }
  return spec;
}

}  // namespace plimsoll::model
