// LLaVA 1.5: a text model, and a CLIP or SigLIP tower up to the last layer whose output is
// projected.
#include <algorithm>

#include "model/decoder_config.h"
#include "model/families/families.h"
#include "model/language_model.h"
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

constexpr const char* kTower = "vision_tower.vision_model";
constexpr const char* kBareTower = "vision_tower";  // as transformers 5 spells it
constexpr const char* kFeature = "vision_feature_layer";
constexpr size_t kMostFeatures = 64;

struct LlavaTower {
  ImageEncoder kind;
  VisionSizes sizes;
  int64_t all_layers;             // of the checkpoint; `sizes` has those in use
  std::vector<int64_t> features;  // after how many of them; one or several side by side
};

/// A number, or a list of them.
std::vector<int64_t> feature_layers(const ConfigReader& config, const VisionSizes& sizes) {
  const Json* value = config.find({kFeature});
  if (value == nullptr || !value->is_array()) {
    return {layers_until(config, kFeature, config.integer({kFeature}, -2, {-4096, 4096}), sizes)};
  }
  std::vector<int64_t> features;
  for (const Json& layer : *value) {
    const int64_t number = layer.is_number_integer() ? layer.get<int64_t>() : -4097;
    features.push_back(layers_until(config, kFeature, number, sizes));
  }
  if (features.empty() || features.size() > kMostFeatures) {
    config.refuse(kFeature, "a layer's number or a list of them");
  }
  return features;
}

LlavaTower read_tower(const ConfigReader& config) {
  const ConfigReader vision = config.object_or_empty("vision_config");
  const auto kind = encoder_of_type(vision.text({"model_type"}, "clip_vision_model"));
  if (!kind || *kind == ImageEncoder::pixtral) {
    vision.refuse("model_type", "clip_vision_model or siglip_vision_model");
  }
  LlavaTower tower{.kind = *kind, .sizes = {}, .all_layers = 0, .features = {}};
  tower.sizes = read_image_encoder(vision, tower.kind);
  tower.all_layers = tower.sizes.layers;
  tower.features = feature_layers(config, tower.sizes);
  tower.sizes.layers = std::ranges::max(tower.features);
  return tower;
}

/// Which of the encoder's rows is the first to be projected: "default" leaves out one, whatever it
/// is.
int64_t first_row_of(const ConfigReader& config, const LlavaTower& tower) {
  const char* const key = "vision_feature_select_strategy";
  const std::string strategy = config.text({key}, "default");
  if (strategy != "default" && strategy != "full") config.refuse(key, "default or full");
  const int64_t first = strategy == "default" ? 1 : 0;
  const bool has_class = tower.kind == ImageEncoder::clip;
  if (!has_class && tower.sizes.patches() <= first) config.refuse(key, "full, of one patch");
  return first;
}

void ignore_unused(const LlavaTower& tower, ModelSpec& spec) {
  const std::string module = kTower;
  for (int64_t i = tower.sizes.layers; i < tower.all_layers; ++i) {
    ignore_tensors(spec, module + ".encoder.layers." + std::to_string(i) + ".");
    ignore_tensors(spec, std::string(kBareTower) + ".encoder.layers." + std::to_string(i) + ".");
  }
  for (const std::string& name : {module, std::string(kBareTower)}) {
    ignore_tensors(spec, name + ".post_layernorm.");
    if (tower.kind == ImageEncoder::siglip) ignore_tensors(spec, name + ".head.");
  }
}

}  // namespace

ModelSpec make_llava(const ConfigReader& config) {
  TextPart text{.config = config.json()};
  text.config["tie_word_embeddings"] = is_tied_anywhere(config);
  if (!text.config.contains("model_type")) text.config["model_type"] = "llama";
  ModelSpec spec =
      make_language_model(config, text, find_text_family(config.reading(text.config)).make);

  const ConfigReader whole = config.whole();
  const LlavaTower tower = read_tower(whole);
  const bool bias = whole.boolean({"multimodal_projector_bias"}, true);
  const std::string first = "multi_modal_projector.linear_1";
  const std::string second = "multi_modal_projector.linear_2";
  SpecBuilder add(spec.towers);
  VisionSpec vision;
  vision.kind = tower.kind == ImageEncoder::clip ? VisionKind::clip : VisionKind::siglip;
  add_image_encoder(kTower, tower.kind, tower.sizes, PostNorm::dropped, add, vision);
  vision.first_row = first_row_of(whole, tower);
  vision.activation = read_activation(whole, "projector_hidden_act", "gelu");
  const auto features = std::ssize(tower.features);
  if (features > 1) {
    vision.features = tower.features;
    spec.vllm.refused = "vLLM's class projects the features of one layer alone";
  }
  vision.first = add.linear(first, {Rows::all(first, spec.hidden_size)},
                            features * tower.sizes.hidden, {.split = Split::column, .bias = bias});
  vision.second = add.linear(second, {Rows::all(second, spec.hidden_size)}, spec.hidden_size,
                             {.split = Split::row, .bias = bias});
  vision.image_token = read_image_token(whole, {"image_token_index", "image_token_id"});
  spec.vision = std::make_shared<const VisionSpec>(std::move(vision));
  add_newer_spellings(spec);
  ignore_unused(tower, spec);
  return spec;
}

}  // namespace plimsoll::model
