// Vision towers: their configs, and their weights in the order of vLLM's state dict. The model that
// has a tower names its modules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/config_reader.h"
#include "model/spec_builder.h"
#include "model/vision_spec.h"

namespace plimsoll::model {

/// Sizes of a transformer over the square patches of an image.
struct VisionSizes {
  float epsilon = 1e-5f;  // of norms
  Activation activation = Activation::gelu;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;  // hidden / heads wide each, with k and v of their own
  int64_t channels = 3;
  int64_t image = 0;  // pixels of a side
  int64_t patch = 0;

  [[nodiscard]] int64_t patches() const { return (image / patch) * (image / patch); }
};

/// Reads and checks the sizes; `defaults` are the config class's.
VisionSizes read_vision_sizes(const ConfigReader& vision, const VisionSizes& defaults);

/// Layers of a tower whose output after layer `layer` is used: counted from 1, or from -1 backwards
/// (0 is the tower's input).
int64_t layers_until(const ConfigReader& config, std::string_view key, int64_t layer,
                     const VisionSizes& sizes);

/// Image encoders that several models have; of Pixtral only the type is known here.
enum class ImageEncoder : uint8_t { clip, siglip, pixtral };
/// The encoder that the `model_type` of a vision_config names.
std::optional<ImageEncoder> encoder_of_type(std::string_view model_type);
/// Whether the norm over the last layer's output is used.
enum class PostNorm : uint8_t { dropped, kept };

VisionSizes read_image_encoder(const ConfigReader& vision, ImageEncoder kind);
/// Adds the first `sizes.layers` layers below `module` (vision_tower.vision_model), and fills in
/// the encoder's part of `vision`.
void add_image_encoder(const std::string& module, ImageEncoder kind, const VisionSizes& sizes,
                       PostNorm post_norm, SpecBuilder& add, VisionSpec& vision);

/// InternViT, whose attention vLLM keeps whole on every rank where heads do not divide.
struct InternVit {
  VisionSizes sizes;
  int64_t dummy_heads = 0;  // beside the others', for more ranks to divide them (NVLM)
  bool qkv_bias = false;
  bool qk_norm = false;
  Norm norm;
};
InternVit read_intern_vit(const ConfigReader& vision);
void add_intern_vit(const std::string& module, const InternVit& vit, SpecBuilder& add,
                    VisionSpec& vision);

/// Qwen2-VL's blocks have layer norms and plain MLPs, Qwen2.5-VL's RMS norms and gated ones, and
/// most of them windows.
enum class QwenTower : uint8_t { plain, gated };

/// The towers with their merger of neighbouring patches.
struct QwenVision {
  QwenTower kind = QwenTower::gated;
  VisionSizes sizes;
  int64_t kv_heads = 0;
  int64_t merge = 2;                         // patches of a side that are merged
  int64_t window = 0;                        // merged patches of a window's side
  std::vector<int64_t> full_attention = {};  // layers that see the whole image
  int64_t frames = 0;                        // frames that a patch spans
  int64_t merged = 0;                        // width of the patches that the merger puts together
  int64_t out = 0;
};
QwenVision read_qwen_vision(const ConfigReader& vision, QwenTower kind);
void add_qwen_vision(const std::string& module, const QwenVision& qwen, SpecBuilder& add,
                     VisionSpec& vision);

}  // namespace plimsoll::model
