// Qwen2-VL and Qwen2.5-VL: Qwen2 below a tower of its own. In prompts of text alone the three kinds
// of positions are equal, so that its RoPE is the plain one.
#include <fmt/format.h>

#include "model/families/families.h"
#include "model/language_model.h"
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

ModelSpec make_qwen_vl(const ConfigReader& config, QwenTower tower) {
  TextPart text{.config = config.json(), .tensors = ""};
  text.config["tie_word_embeddings"] = is_tied_anywhere(config);
  ModelSpec spec = make_language_model(config, text, make_qwen2);

  SpecBuilder add(spec.towers);
  VisionSpec vision;
  const ConfigReader vision_config = config.whole().object_or_empty("vision_config");
  const QwenVision qwen = read_qwen_vision(vision_config, tower);
  if (qwen.out != spec.hidden_size) {
    vision_config.refuse(tower == QwenTower::gated ? "out_hidden_size" : "hidden_size",
                         fmt::format("the text's hidden_size ({})", spec.hidden_size));
  }
  add_qwen_vision("visual", qwen, add, vision);
  vision.image_token = read_image_token(config.whole(), {"image_token_id"});
  vision.video_token = read_image_token(config.whole(), {"video_token_id"});
  if (tower == QwenTower::gated) {
    vision.positions_per_second = vision_config.positive({"tokens_per_second"}, 2);
  }
  spec.vision = std::make_shared<const VisionSpec>(std::move(vision));
  spec.input_norm = "visual.input_norm";
  spec.tensor_prefixes.emplace_back("model.", "model.language_model.");
  spec.tensor_prefixes.emplace_back("model.", "language_model.model.");
  spec.tensor_prefixes.emplace_back("lm_head.", "language_model.lm_head.");
  spec.tensor_prefixes.emplace_back("visual.", "model.visual.");
  return spec;
}

}  // namespace

ModelSpec make_qwen2_vl(const ConfigReader& config) {
  return make_qwen_vl(config, QwenTower::plain);
}

ModelSpec make_qwen2_5_vl(const ConfigReader& config) {
  return make_qwen_vl(config, QwenTower::gated);
}

}  // namespace plimsoll::model
