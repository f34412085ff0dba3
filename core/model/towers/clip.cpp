// CLIP's and SigLIP's image encoders: the same layers, other ends.
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

constexpr Norm kLayerNorm{.kind = NormKind::layer};

void add_layer(const std::string& module, const VisionSizes& sizes, SpecBuilder& add) {
  const auto rows = [](const std::string& name, int64_t count) {
    return std::vector<Rows>{Rows::all(name, count)};
  };
  const std::string attention = module + ".self_attn";
  add.linear(attention + ".qkv_proj",
             {Rows::all(attention + ".q_proj", sizes.hidden),
              Rows::all(attention + ".k_proj", sizes.hidden),
              Rows::all(attention + ".v_proj", sizes.hidden)},
             sizes.hidden, {.split = Split::qkv, .bias = true, .heads = sizes.heads});
  const std::string out = attention + ".out_proj";
  add.linear(out, rows(out, sizes.hidden), sizes.hidden,
             {.split = Split::row, .bias = true, .heads = sizes.heads});
  add.norm(module + ".layer_norm1", sizes.hidden, kLayerNorm);
  const std::string up = module + ".mlp.fc1";
  const std::string down = module + ".mlp.fc2";
  add.linear(up, rows(up, sizes.intermediate), sizes.hidden,
             {.split = Split::column, .bias = true});
  add.linear(down, rows(down, sizes.hidden), sizes.intermediate,
             {.split = Split::row, .bias = true});
  add.norm(module + ".layer_norm2", sizes.hidden, kLayerNorm);
}

}  // namespace

VisionSizes read_image_encoder(const ConfigReader& vision, ImageEncoder kind) {
  const VisionSizes sizes =
      read_vision_sizes(vision, {.hidden = 768,
                                 .intermediate = 3072,
                                 .layers = 12,
                                 .heads = 12,
                                 .image = 224,
                                 .patch = kind == ImageEncoder::clip ? 32 : 16});
  if (kind == ImageEncoder::clip && sizes.image % sizes.patch != 0) {
    vision.refuse("image_size", "a multiple of patch_size");
  }
  return sizes;
}

void add_image_encoder(const std::string& module, ImageEncoder kind, const VisionSizes& sizes,
                       PostNorm post_norm, SpecBuilder& add) {
  const bool clip = kind == ImageEncoder::clip;
  const std::string embeddings = module + ".embeddings";
  if (clip) add.parameter(embeddings + ".class_embedding", {sizes.hidden});
  add.parameter(embeddings + ".patch_embedding.weight",
                {sizes.hidden, sizes.channels, sizes.patch, sizes.patch});
  if (!clip) add.parameter(embeddings + ".patch_embedding.bias", {sizes.hidden});
  add.parameter(embeddings + ".position_embedding.weight",
                {sizes.patches() + (clip ? 1 : 0), sizes.hidden});
  if (clip) add.norm(module + ".pre_layrnorm", sizes.hidden, kLayerNorm);  // CLIP's own spelling
  for (int64_t i = 0; i < sizes.layers; ++i) {
    add_layer(module + ".encoder.layers." + std::to_string(i), sizes, add);
  }
  if (post_norm == PostNorm::kept) add.norm(module + ".post_layernorm", sizes.hidden, kLayerNorm);
}

}  // namespace plimsoll::model
