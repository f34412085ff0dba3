// CLIP's and SigLIP's image encoders: the same layers, other ends.
#include <algorithm>
#include <array>
#include <utility>

#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

Norm layer_norm(const VisionSizes& sizes) {
  return {.kind = NormKind::layer, .epsilon = sizes.epsilon};
}

VisionLayer add_layer(const std::string& module, const VisionSizes& sizes, SpecBuilder& add) {
  VisionLayer layer;
  const auto rows = [](const std::string& name, int64_t count) {
    return std::vector<Rows>{Rows::all(name, count)};
  };
  const std::string attention = module + ".self_attn";
  layer.qkv = add.linear(attention + ".qkv_proj",
                         {Rows::all(attention + ".q_proj", sizes.hidden),
                          Rows::all(attention + ".k_proj", sizes.hidden),
                          Rows::all(attention + ".v_proj", sizes.hidden)},
                         sizes.hidden, {.split = Split::qkv, .bias = true, .heads = sizes.heads});
  const std::string out = attention + ".out_proj";
  layer.out = add.linear(out, rows(out, sizes.hidden), sizes.hidden,
                         {.split = Split::row, .bias = true, .heads = sizes.heads});
  layer.attention_norm = add.norm(module + ".layer_norm1", sizes.hidden, layer_norm(sizes));
  layer.mlp = {
      .kind = MlpKind::plain, .activation = sizes.activation, .intermediate = sizes.intermediate};
  const std::string up = module + ".mlp.fc1";
  const std::string down = module + ".mlp.fc2";
  layer.mlp.up = add.linear(up, rows(up, sizes.intermediate), sizes.hidden,
                            {.split = Split::column, .bias = true});
  layer.mlp.down = add.linear(down, rows(down, sizes.hidden), sizes.intermediate,
                              {.split = Split::row, .bias = true});
  layer.mlp_norm = add.norm(module + ".layer_norm2", sizes.hidden, layer_norm(sizes));
  return layer;
}

}  // namespace

std::optional<ImageEncoder> encoder_of_type(std::string_view model_type) {
  using Row = std::pair<std::string_view, ImageEncoder>;
  static constexpr std::array<Row, 3> kTypes = {{{"clip_vision_model", ImageEncoder::clip},
                                                 {"siglip_vision_model", ImageEncoder::siglip},
                                                 {"pixtral", ImageEncoder::pixtral}}};
  const auto* const row = std::ranges::find(kTypes, model_type, &Row::first);
  return row == kTypes.end() ? std::nullopt : std::optional(row->second);
}

VisionSizes read_image_encoder(const ConfigReader& vision, ImageEncoder kind) {
  const bool clip = kind == ImageEncoder::clip;
  const VisionSizes sizes = read_vision_sizes(
      vision, {.epsilon = clip ? 1e-5f : 1e-6f,
               .activation = clip ? Activation::gelu_quick : Activation::gelu_tanh,
               .hidden = 768,
               .intermediate = 3072,
               .layers = 12,
               .heads = 12,
               .image = 224,
               .patch = clip ? 32 : 16});
  if (clip && sizes.image % sizes.patch != 0) {
    vision.refuse("image_size", "a multiple of patch_size");
  }
  return sizes;
}

void add_image_encoder(const std::string& module, ImageEncoder kind, const VisionSizes& sizes,
                       PostNorm post_norm, SpecBuilder& add, VisionSpec& vision) {
  const bool clip = kind == ImageEncoder::clip;
  const std::string embeddings = module + ".embeddings";
  vision.hidden = sizes.hidden;
  vision.heads = sizes.heads;
  vision.patch = sizes.patch;
  vision.image = sizes.image;
  if (clip) vision.class_token = add.parameter(embeddings + ".class_embedding", {sizes.hidden});
  vision.first_row = clip ? 1 : 0;
  vision.patches.weight = add.parameter(embeddings + ".patch_embedding.weight",
                                        {sizes.hidden, sizes.channels, sizes.patch, sizes.patch});
  if (!clip) {
    vision.patches.bias = add.parameter(embeddings + ".patch_embedding.bias", {sizes.hidden});
  }
  vision.positions = add.parameter(embeddings + ".position_embedding.weight",
                                   {sizes.patches() + (clip ? 1 : 0), sizes.hidden});
  if (clip) {  // CLIP's own spelling
    vision.input_norm = add.norm(module + ".pre_layrnorm", sizes.hidden, layer_norm(sizes));
  }
  for (int64_t i = 0; i < sizes.layers; ++i) {
    vision.layers.push_back(add_layer(module + ".encoder.layers." + std::to_string(i), sizes, add));
  }
  if (post_norm == PostNorm::kept) {
    vision.output_norm = add.norm(module + ".post_layernorm", sizes.hidden, layer_norm(sizes));
  }
}

}  // namespace plimsoll::model
