// Towers of Step-3 and its kin: what they see is thinned out by convolutions before it is
// projected.
#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
namespace {

/// Elements of a convolution over squares of `side` pixels, with bias.
Amount convolution(int64_t inputs, int64_t outputs, int64_t side) {
  return (Amount{inputs} * side * side + 1) * outputs;
}

constexpr Bounds kWidth{1, 1 << 20};
constexpr int64_t kThinning = 3;  // side of a convolution's kernel

}  // namespace

/// Step-3: two convolutions behind CLIP's kind of tower.
void add_step3_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "vision_model.transformer.layers", {63, 1792, 16, 3072});
  tower.quantized = false;
  const int64_t patch = config.integer({"patch_size"}, 14, kWidth);
  const int64_t side = config.integer({"image_size"}, 728, kWidth) / patch;
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * patch * patch;
  tower.positions = side * side + 1;
  tower.ends = tower.hidden;  // the class
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  const int64_t width = config.integer({"output_hidden_size"}, 4096, kWidth);
  constexpr int64_t kFirst = 2;
  const Amount bias = outer.flag({"projector_bias"}, true) ? build.dims.hidden : 0;
  build.weights.plain(Part::vision, convolution(tower.hidden, width, kFirst) +
                                        convolution(width, 2 * width, kThinning) +
                                        Amount{2} * width * build.dims.hidden + bias);
  build.shape.vision.kind = VisionShape::Kind::other;
}

/// Step-VL and Step-3.7: a perception encoder that rotates by rows and columns, each layer by a
/// table of its own.
void add_perception_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_model.transformer.resblocks";
  tower.layers = config.integer({"layers"}, 47, kTowerLayers);
  tower.hidden = config.integer({"width"}, 1536, kWidth);
  tower.heads = config.integer({"heads"}, 16, {1, 1 << 16});
  tower.intermediate = static_cast<int64_t>(static_cast<double>(tower.hidden) *
                                            config.number({"mlp_ratio"}, 8960.0 / 1536.0));
  const int64_t patch = config.integer({"patch_size"}, 14, kWidth);
  const int64_t side = config.integer({"image_size"}, 728, kWidth) / patch;
  const bool classed = config.flag({"use_cls_token"}, false);
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * patch * patch;
  tower.patch_bias = false;
  if (config.flag({"use_abs_posemb"}, true)) tower.positions = side * side + (classed ? 1 : 0);
  if (config.has("ls_init_value")) tower.layer_extras = 2 * tower.hidden;
  if (classed) tower.ends += tower.hidden;
  for (const char* norm : {"use_ln_pre", "use_ln_post"}) {
    if (config.flag({norm}, norm == std::string("use_ln_pre"))) tower.ends += 2 * tower.hidden;
  }
  add_tower(tower, build);
  const Amount cells = Amount{side} * side + (classed ? 1 : 0);
  build.weights.buffer(cells * (tower.hidden / tower.heads) * kFloat32 * tower.layers);
  const int64_t width = tower.hidden;
  build.weights.plain(Part::vision, convolution(width, 2 * width, kThinning) +
                                        convolution(2 * width, 4 * width, kThinning));
  project(build, "vit_large_projector", 4 * width, build.dims.hidden, Split::outputs,
          outer.flag({"projector_bias"}, true));
  build.shape.vision.kind = VisionShape::Kind::other;
}

}  // namespace plimsoll::vllm
