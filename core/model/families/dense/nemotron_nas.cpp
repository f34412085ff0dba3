// Nemotron-NAS (DeciLM): a search has chosen each layer's KV heads and the width of its MLP, or
// left one of the two out.
#include <cmath>

#include "base/error.h"
#include "base/rounding.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

struct Block {
  LayerParts parts;
  int64_t kv_heads = 0;
  int64_t width = 0;  // of the MLP
};

/// Doubts parts that an architecture search may have put in place of attention and MLP, which
/// vLLM's class does not read.
void doubt_other_parts(const ConfigReader& attention, const ConfigReader& mlp) {
  for (const ConfigReader* part : {&attention, &mlp}) {
    if (part->boolean({"replace_with_linear"}, false)) part->doubt("replace_with_linear", "false");
  }
  for (const char* key : {"window_length", "num_sink_tokens"}) {
    if (attention.find({key}) != nullptr) attention.doubt(key, "null");
  }
}

/// Two thirds of 2 * `ffn_mult` * hidden size, up to a multiple of 256, or as stated.
int64_t read_width(const ConfigReader& mlp, int64_t hidden) {
  if (mlp.find({"ffn_mult"}) == nullptr) return mlp.required({"intermediate_size"}, kWidths);
  constexpr int64_t kMultiple = 256;
  constexpr double kMost = 1000;
  const double multiplier = mlp.positive({"ffn_mult"}, 0);
  if (multiplier <= 0 || multiplier >= kMost) mlp.refuse("ffn_mult", "a number below 1000");
  const auto width = static_cast<int64_t>(2 * multiplier * static_cast<double>(hidden) / 3);
  return round_up(width, kMultiple);
}

Block read_block(const ConfigReader& block, const Sizes& sizes) {
  const ConfigReader attention = block.object_or_empty("attention");
  const ConfigReader mlp = block.object_or_empty("ffn");
  doubt_other_parts(attention, mlp);
  Block read;
  read.parts.attention = !attention.boolean({"no_op"}, false);
  read.parts.mlp = !mlp.boolean({"no_op"}, false);
  if (read.parts.attention) {
    const int64_t group = attention.required({"n_heads_in_group"}, {1, sizes.heads});
    read.kv_heads = sizes.heads / group;
    require_even_groups(attention, "n_heads_in_group", sizes.heads, read.kv_heads);
  }
  if (read.parts.mlp) read.width = read_width(mlp, sizes.hidden);
  return read;
}

}  // namespace

ModelSpec make_nemotron_nas(const ConfigReader& config) {
  Decoder decoder{.family = "nemotron_nas"};
  read_common(config, decoder);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  add_llama_biases(config, decoder);
  const Sizes& sizes = decoder.sizes;
  const Json* blocks = config.find({"block_configs"});
  if (blocks == nullptr || !blocks->is_array() || std::ssize(*blocks) < sizes.layers) {
    config.refuse("block_configs",
                  fmt::format("a list of one object for each of {} layers", sizes.layers));
  }
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const Json& stated = (*blocks)[static_cast<size_t>(i)];
    if (!stated.is_object()) config.refuse("block_configs", "a list of objects");
    const Block block = read_block(config.reading(stated), sizes);
    decoder.parts.push_back(block.parts);
    decoder.widths.push_back(block.width);
    decoder.heads.push_back(
        {.heads = sizes.heads, .kv_heads = block.kv_heads, .head_dim = sizes.head_dim});
  }
  const std::string positions = config.text({"position_embedding_type"}, "rope");
  if (positions == "mistral_yarn" || positions == "rope_llama4") {
    decoder.rope_pairs = RopePairs::neighbours;
  }
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
