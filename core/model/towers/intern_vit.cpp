// InternViT: layer scales, one fused qkv, perhaps norms over all heads' q and k.
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

void add_attention(const std::string& module, const InternVit& vit, SpecBuilder& add) {
  const int64_t hidden = vit.sizes.hidden;
  const std::string qkv = module + ".qkv";
  std::vector<Rows> rows;
  for (int64_t i = 0; i < 3; ++i) {
    rows.push_back({.module = qkv, .stored = 3 * hidden, .first = i * hidden, .block = hidden});
  }
  add.linear(qkv, rows, hidden,
             {.split = Split::qkv,
              .bias = vit.qkv_bias,
              .heads = vit.sizes.heads,
              .uneven_heads = UnevenHeads::replicated});
  if (vit.qk_norm) {
    add.norm(module + ".q_norm", hidden, {});
    add.norm(module + ".k_norm", hidden, {});
  }
  const std::string out = module + ".proj";
  add.linear(out, {Rows::all(out, hidden)}, hidden,
             {.split = Split::row,
              .bias = true,
              .heads = vit.sizes.heads,
              .uneven_heads = UnevenHeads::replicated});
}

}  // namespace

InternVit read_intern_vit(const ConfigReader& vision) {
  InternVit vit{.sizes = read_vision_sizes(vision, {.hidden = 3200,
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
  vit.sizes.channels = 3;  // vLLM's class reads no other number
  return vit;
}

void add_intern_vit(const std::string& module, const InternVit& vit, SpecBuilder& add) {
  const VisionSizes& sizes = vit.sizes;
  const std::string embeddings = module + ".embeddings";
  add.parameter(embeddings + ".class_embedding", {1, 1, sizes.hidden});
  add.parameter(embeddings + ".position_embedding", {1, sizes.patches() + 1, sizes.hidden});
  add.parameter(embeddings + ".patch_embedding.weight",
                {sizes.hidden, sizes.channels, sizes.patch, sizes.patch});
  add.parameter(embeddings + ".patch_embedding.bias", {sizes.hidden});
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const std::string layer = module + ".encoder.layers." + std::to_string(i);
    add.vector(layer + ".ls1", sizes.hidden);
    add.vector(layer + ".ls2", sizes.hidden);
    add_attention(layer + ".attn", vit, add);
    const std::string up = layer + ".mlp.fc1";
    const std::string down = layer + ".mlp.fc2";
    add.linear(up, {Rows::all(up, sizes.intermediate)}, sizes.hidden,
               {.split = Split::column, .bias = true});
    add.linear(down, {Rows::all(down, sizes.hidden)}, sizes.intermediate,
               {.split = Split::row, .bias = true});
    add.norm(layer + ".norm1", sizes.hidden, vit.norm);
    add.norm(layer + ".norm2", sizes.hidden, vit.norm);
  }
}

}  // namespace plimsoll::model
