// Qwen2.5-VL's tower: patches of several frames, RMS norms, gated MLPs, a merger of patches.
#include "model/decoder_config.h"
#include "model/towers/towers.h"

namespace plimsoll::model {
namespace {

void add_block(const std::string& module, const VisionSizes& sizes, SpecBuilder& add) {
  const int64_t hidden = sizes.hidden;
  add.norm(module + ".norm1", hidden, {});
  add.norm(module + ".norm2", hidden, {});
  const std::string qkv = module + ".attn.qkv";
  std::vector<Rows> rows;
  for (int64_t i = 0; i < 3; ++i) {
    rows.push_back({.module = qkv, .stored = 3 * hidden, .first = i * hidden, .block = hidden});
  }
  add.linear(qkv, rows, hidden, {.split = Split::qkv, .bias = true, .heads = sizes.heads});
  const std::string out = module + ".attn.proj";
  add.linear(out, {Rows::all(out, hidden)}, hidden,
             {.split = Split::row, .bias = true, .heads = sizes.heads});
  const std::string mlp = module + ".mlp";
  add.linear(mlp + ".gate_up_proj",
             {Rows::all(mlp + ".gate_proj", sizes.intermediate),
              Rows::all(mlp + ".up_proj", sizes.intermediate)},
             hidden, {.split = Split::merged_column, .bias = true});
  const std::string down = mlp + ".down_proj";
  add.linear(down, {Rows::all(down, hidden)}, sizes.intermediate,
             {.split = Split::row, .bias = true});
}

}  // namespace

QwenVision read_qwen_vision(const ConfigReader& vision) {
  constexpr IntegerRange kFrames{1, 1024};
  const VisionSizes defaults{.hidden = 3584,
                             .intermediate = 3420,
                             .layers = 32,
                             .heads = 16,
                             .image = 1 << 16,
                             .patch = 14};
  QwenVision qwen{.sizes = read_vision_sizes(vision, defaults),
                  .frames = vision.integer({"temporal_patch_size"}, 2, kFrames)};
  const int64_t side = vision.integer({"spatial_merge_size"}, 2, kFrames);
  qwen.merged = qwen.sizes.hidden * side * side;
  qwen.out = vision.integer({"out_hidden_size"}, 3584, kWidths);
  return qwen;
}

void add_qwen_vision(const std::string& module, const QwenVision& vision, SpecBuilder& add) {
  const VisionSizes& sizes = vision.sizes;
  add.parameter(module + ".patch_embed.proj.weight",
                {sizes.hidden, sizes.channels, vision.frames, sizes.patch, sizes.patch});
  for (int64_t i = 0; i < sizes.layers; ++i) {
    add_block(module + ".blocks." + std::to_string(i), sizes, add);
  }
  const std::string merger = module + ".merger";
  add.norm(merger + ".ln_q", sizes.hidden, {});
  add.linear(merger + ".mlp.0", {Rows::all(merger + ".mlp.0", vision.merged)}, vision.merged,
             {.split = Split::column, .bias = true});
  add.linear(merger + ".mlp.2", {Rows::all(merger + ".mlp.2", vision.out)}, vision.merged,
             {.split = Split::row, .bias = true});
}

}  // namespace plimsoll::model
