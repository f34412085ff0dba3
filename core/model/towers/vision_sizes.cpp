#include <fmt/format.h>

#include "model/decoder_config.h"
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

constexpr IntegerRange kTowerLayers{1, 4096};
constexpr IntegerRange kTowerHeads{1, 65536};
constexpr IntegerRange kSides{1, 65536};  // pixels

}  // namespace

VisionSizes read_vision_sizes(const ConfigReader& vision, const VisionSizes& defaults) {
  VisionSizes sizes;
  sizes.hidden = vision.integer({"hidden_size"}, defaults.hidden, kWidths);
  sizes.intermediate = vision.integer({"intermediate_size"}, defaults.intermediate, kWidths);
  sizes.layers = vision.integer({"num_hidden_layers", "depth"}, defaults.layers, kTowerLayers);
  sizes.heads = vision.integer({"num_attention_heads", "num_heads"}, defaults.heads, kTowerHeads);
  sizes.channels = vision.integer({"num_channels", "in_channels"}, defaults.channels, {1, 1024});
  sizes.image = vision.integer({"image_size"}, defaults.image, kSides);
  sizes.patch = vision.integer({"patch_size"}, defaults.patch, kSides);
  sizes.epsilon = static_cast<float>(vision.positive({"layer_norm_eps"}, defaults.epsilon));
  sizes.activation = defaults.activation;
  if (vision.has("hidden_act")) sizes.activation = read_activation(vision, "hidden_act", "gelu");
  if (sizes.hidden % sizes.heads != 0) {
    vision.refuse("hidden_size", fmt::format("a multiple of the {} heads", sizes.heads));
  }
  if (sizes.image < sizes.patch) {
    vision.refuse("image_size", fmt::format("at least patch_size ({})", sizes.patch));
  }
  return sizes;
}

int64_t layers_until(const ConfigReader& config, std::string_view key, int64_t layer,
                     const VisionSizes& sizes) {
  const int64_t layers = layer < 0 ? sizes.layers + layer + 1 : layer;
  if (layers < 0 || layers > sizes.layers) {
    config.refuse(key, fmt::format("one of the vision tower's {} layers", sizes.layers));
  }
  return layers;
}

}  // namespace plimsoll::model
