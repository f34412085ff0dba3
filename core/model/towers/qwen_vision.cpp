// Qwen2.5-VL's tower: patches of several frames, RMS norms, gated MLPs, a merger of patches.
#include <algorithm>

#include "model/decoder_config.h"
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

constexpr float kEpsilon = 1e-6f;

Norm norm_of(QwenTower kind) {
  return {.kind = kind == QwenTower::gated ? NormKind::rms : NormKind::layer, .epsilon = kEpsilon};
}

MlpSpec add_mlp(const std::string& module, const QwenVision& qwen, SpecBuilder& add) {
  const VisionSizes& sizes = qwen.sizes;
  const bool gated = qwen.kind == QwenTower::gated;
  MlpSpec mlp{.kind = gated ? MlpKind::gated : MlpKind::plain,
              .activation = sizes.activation,
              .intermediate = sizes.intermediate};
  if (gated) {
    mlp.up = add.linear(module + ".gate_up_proj",
                        {Rows::all(module + ".gate_proj", sizes.intermediate),
                         Rows::all(module + ".up_proj", sizes.intermediate)},
                        sizes.hidden, {.split = Split::merged_column, .bias = true});
  } else {
    const std::string up = module + ".fc1";
    mlp.up = add.linear(up, {Rows::all(up, sizes.intermediate)}, sizes.hidden,
                        {.split = Split::column, .bias = true});
  }
  const std::string down = module + (gated ? ".down_proj" : ".fc2");
  mlp.down = add.linear(down, {Rows::all(down, sizes.hidden)}, sizes.intermediate,
                        {.split = Split::row, .bias = true});
  return mlp;
}

VisionLayer add_block(const std::string& module, const QwenVision& qwen, SpecBuilder& add) {
  const int64_t hidden = qwen.sizes.hidden;
  VisionLayer layer;
  layer.attention_norm = add.norm(module + ".norm1", hidden, norm_of(qwen.kind));
  layer.mlp_norm = add.norm(module + ".norm2", hidden, norm_of(qwen.kind));
  const std::string qkv = module + ".attn.qkv";
  if (qwen.kind == QwenTower::gated) {
    const int64_t kv = hidden / qwen.sizes.heads * qwen.kv_heads;
    layer.qkv = add.linear(qkv, Rows::parts(qkv, {hidden, kv, kv}), hidden,
                           {.split = Split::qkv, .bias = true, .heads = qwen.sizes.heads});
  } else {  // Qwen2-VL's is one matrix to vLLM, whose ranks gather their rows' results
    layer.qkv = add.linear(qkv, {Rows::all(qkv, 3 * hidden)}, hidden,
                           {.split = Split::column, .bias = true, .heads = qwen.sizes.heads});
  }
  const std::string out = module + ".attn.proj";
  layer.out = add.linear(out, {Rows::all(out, hidden)}, hidden,
                         {.split = Split::row, .bias = true, .heads = qwen.sizes.heads});
  layer.mlp = add_mlp(module + ".mlp", qwen, add);
  return layer;
}

/// Sizes under Qwen2-VL's names: there `hidden_size` is the text model's.
VisionSizes read_plain_sizes(const ConfigReader& vision) {
  VisionSizes sizes{.epsilon = kEpsilon, .activation = Activation::gelu_quick, .image = 0};
  sizes.hidden = vision.integer({"embed_dim"}, 1280, kWidths);
  sizes.layers = vision.integer({"depth"}, 32, {1, 4096});
  sizes.heads = vision.integer({"num_heads"}, 16, {1, 65536});
  sizes.intermediate =
      static_cast<int64_t>(static_cast<double>(sizes.hidden) * vision.positive({"mlp_ratio"}, 4));
  sizes.patch = vision.integer({"patch_size"}, 14, {1, 1024});
  if (vision.has("hidden_act")) sizes.activation = read_activation(vision, "hidden_act", "");
  if (sizes.hidden % sizes.heads != 0) vision.refuse("embed_dim", "a multiple of num_heads");
  return sizes;
}

}  // namespace

QwenVision read_qwen_vision(const ConfigReader& vision, QwenTower kind) {
  constexpr IntegerRange kFrames{1, 1024};
  const VisionSizes defaults{.activation = Activation::silu,
                             .hidden = 3584,
                             .intermediate = 3420,
                             .layers = 32,
                             .heads = 16,
                             .image = 1 << 16,
                             .patch = 14};
  const bool gated = kind == QwenTower::gated;
  QwenVision qwen{.kind = kind,
                  .sizes = gated ? read_vision_sizes(vision, defaults) : read_plain_sizes(vision),
                  .frames = vision.integer({"temporal_patch_size"}, 2, kFrames)};
  qwen.kv_heads = qwen.sizes.heads;
  if (vision.describes()) {  // EXAONE 4.5's, which `run` does not serve
    qwen.kv_heads = vision.integer({"num_key_value_heads"}, qwen.kv_heads, {1, 1 << 16});
  }
  qwen.merge = vision.integer({"spatial_merge_size"}, 2, kFrames);
  qwen.merged = qwen.sizes.hidden * qwen.merge * qwen.merge;
  qwen.out = gated ? vision.integer({"out_hidden_size"}, 3584, kWidths)
                   : vision.integer({"hidden_size"}, 3584, kWidths);
  if (!gated) return qwen;
  qwen.window = vision.integer({"window_size"}, 112, {1, 65536}) / qwen.merge / qwen.sizes.patch;
  if (qwen.window < 1) vision.refuse("window_size", "at least one merged patch");
  if (const Json* full = vision.find({"fullatt_block_indexes"})) {
    for (const Json& layer : *full) {
      if (!layer.is_number_integer()) vision.refuse("fullatt_block_indexes", "numbers of layers");
      qwen.full_attention.push_back(layer.get<int64_t>());
    }
  } else {
    qwen.full_attention = {7, 15, 23, 31};
  }
  return qwen;
}

void add_qwen_vision(const std::string& module, const QwenVision& qwen, SpecBuilder& add,
                     VisionSpec& vision) {
  const VisionSizes& sizes = qwen.sizes;
  vision.kind = VisionKind::qwen2_vl;
  vision.hidden = sizes.hidden;
  vision.heads = sizes.heads;
  vision.patch = sizes.patch;
  vision.merge = qwen.merge;
  vision.window = qwen.window;
  vision.rope = image_rope(sizes.hidden / sizes.heads);
  vision.patches.weight =
      add.parameter(module + ".patch_embed.proj.weight",
                    {sizes.hidden, sizes.channels, qwen.frames, sizes.patch, sizes.patch});
  for (int64_t i = 0; i < sizes.layers; ++i) {
    vision.layers.push_back(add_block(module + ".blocks." + std::to_string(i), qwen, add));
    vision.layers.back().windowed =
        qwen.window > 0 && std::ranges::find(qwen.full_attention, i) == qwen.full_attention.end();
  }
  const std::string merger = module + ".merger";
  vision.norm_before_merging = true;
  vision.merged_norm = add.norm(merger + ".ln_q", sizes.hidden, norm_of(qwen.kind));
  vision.first = add.linear(merger + ".mlp.0", {Rows::all(merger + ".mlp.0", qwen.merged)},
                            qwen.merged, {.split = Split::column, .bias = true});
  vision.second = add.linear(merger + ".mlp.2", {Rows::all(merger + ".mlp.2", qwen.out)},
                             qwen.merged, {.split = Split::row, .bias = true});
}

}  // namespace plimsoll::model
