// InternViT: layer scales, one fused qkv, perhaps norms over all heads' q and k.
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

void add_attention(const std::string& module, const InternVit& vit, SpecBuilder& add,
                   VisionLayer& layer) {
  const int64_t hidden = vit.sizes.hidden;
  const int64_t heads = vit.sizes.heads + vit.dummy_heads;
  const int64_t width = hidden / vit.sizes.heads * heads;
  const std::string qkv = module + ".qkv";
  const std::vector<Rows> rows = Rows::parts(qkv, {width, width, width});
  layer.qkv = add.linear(qkv, rows, hidden,
                         {.split = Split::qkv,
                          .bias = vit.qkv_bias,
                          .heads = heads,
                          .uneven_heads = UnevenHeads::replicated});
  if (vit.qk_norm) {
    const Norm norm{.epsilon = vit.norm.epsilon};
    layer.q_norm = add.norm(module + ".q_norm", width, norm);
    layer.k_norm = add.norm(module + ".k_norm", width, norm);
  }
  const std::string out = module + ".proj";
  layer.out = add.linear(
      out, {Rows::all(out, hidden)}, width,
      {.split = Split::row, .bias = true, .heads = heads, .uneven_heads = UnevenHeads::replicated});
}

}  // namespace

InternVit read_intern_vit(const ConfigReader& vision) {
  InternVit vit{.sizes = read_vision_sizes(vision, {.epsilon = 1e-6f,
                                                    .hidden = 3200,
                                                    .intermediate = 12800,
                                                    .layers = 48,
                                                    .heads = 25,
                                                    .image = 224,
                                                    .patch = 14}),
                .qkv_bias = vision.boolean({"qkv_bias"}, false),
                .qk_norm = vision.boolean({"qk_normalization"}, true),
                .norm = {}};
  const std::string norm = vision.text({"norm_type"}, "rms_norm");
  if (norm != "rms_norm" && norm != "layer_norm") {
    vision.refuse("norm_type", "rms_norm or layer_norm");
  }
  vit.norm.kind = norm == "rms_norm" ? NormKind::rms : NormKind::layer;
  vit.norm.epsilon = vit.sizes.epsilon;
  vit.sizes.channels = 3;  // vLLM's class reads no other number
  return vit;
}

void add_intern_vit(const std::string& module, const InternVit& vit, SpecBuilder& add,
                    VisionSpec& vision) {
  const VisionSizes& sizes = vit.sizes;
  const std::string embeddings = module + ".embeddings";
  vision.hidden = sizes.hidden;
  vision.heads = sizes.heads;
  vision.patch = sizes.patch;
  vision.image = sizes.image;
  vision.class_token = add.parameter(embeddings + ".class_embedding", {1, 1, sizes.hidden});
  vision.first_row = 1;
  vision.positions =
      add.parameter(embeddings + ".position_embedding", {1, sizes.patches() + 1, sizes.hidden});
  vision.patches.weight = add.parameter(embeddings + ".patch_embedding.weight",
                                        {sizes.hidden, sizes.channels, sizes.patch, sizes.patch});
  vision.patches.bias = add.parameter(embeddings + ".patch_embedding.bias", {sizes.hidden});
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const std::string name = module + ".encoder.layers." + std::to_string(i);
    VisionLayer& layer = vision.layers.emplace_back();
    layer.attention_scale = add.vector(name + ".ls1", sizes.hidden);
    layer.mlp_scale = add.vector(name + ".ls2", sizes.hidden);
    add_attention(name + ".attn", vit, add, layer);
    const std::string up = name + ".mlp.fc1";
    const std::string down = name + ".mlp.fc2";
    layer.mlp = {
        .kind = MlpKind::plain, .activation = sizes.activation, .intermediate = sizes.intermediate};
    layer.mlp.up = add.linear(up, {Rows::all(up, sizes.intermediate)}, sizes.hidden,
                              {.split = Split::column, .bias = true});
    layer.mlp.down = add.linear(down, {Rows::all(down, sizes.hidden)}, sizes.intermediate,
                                {.split = Split::row, .bias = true});
    layer.attention_norm = add.norm(name + ".norm1", sizes.hidden, vit.norm);
    layer.mlp_norm = add.norm(name + ".norm2", sizes.hidden, vit.norm);
  }
}

}  // namespace plimsoll::model
