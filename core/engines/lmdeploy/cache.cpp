// Bytes of blocks and states. Source: lmdeploy/pytorch/engine/cache_engine.py of 0.18.0.
#include <algorithm>

#include "base/rounding.h"
#include "engines/lmdeploy/launch.h"

namespace plimsoll::engines::lmdeploy {
namespace {

constexpr int64_t kAligned = 256;  // bytes

int64_t up(int64_t bytes) {
  return round_up(bytes, kAligned);
}

/// Layers of DeepSeek-V4 that compress `ratio` tokens to one.
int64_t layers_of_ratio(const ModelConfig& config, int64_t ratio) {
  std::vector<int64_t> ratios = config.text().integers({"compress_ratios"});
  const int64_t layers = config.layers();
  if (std::ssize(ratios) > layers) ratios.resize(static_cast<size_t>(layers));
  return std::ranges::count(ratios, ratio);
}

int64_t index_width(const ModelConfig& config) {
  return config.text().integer({"index_head_dim"}, 128, kHead);
}

/// Layers that select tokens by an index of their own.
int64_t selecting_layers(const Launch& launch, const ModelConfig& config) {
  const ConfigView text = config.text();
  if (!text.has("indexer_types")) return launch.layers;
  const std::vector<std::string> types = text.texts({"indexer_types"});
  return std::min(launch.layers, std::ssize(types) - count_of(types, "shared"));
}

}  // namespace

int64_t layer_block_bytes(const Launch& launch) {
  const int64_t tokens = launch.kernel_block;
  const int64_t heads = std::max<int64_t>(1, launch.kv_heads / launch.tp);
  const int64_t policy = launch.quant_policy;
  int64_t keys = tokens * heads * launch.k_dim, values = tokens * heads * launch.v_dim;
  int64_t scales = 0;
  if (launch.selects && policy == 16) {  // FlashMLA's rows: 512 in fp8, scales, 64 in bfloat16
    constexpr int64_t kRow = 656;
    keys = tokens * heads * kRow;
  } else if (policy == 42) {
    keys /= 2;
    values /= 4;
    scales = up(tokens * heads * 2 * 2) + up(tokens * heads * 2);
  } else if (policy == 4) {
    keys /= 2;
    values /= 2;
    scales = 2 * up(tokens * heads * 2 * 2);
  } else if (policy == 8) {
    scales = 2 * up(tokens * heads * 2 * 2);
  } else if (policy == 0) {
    keys *= 2;
    values *= 2;
  }
  return (up(keys) + up(values) + scales) * (launch.block / launch.kernel_block);
}

int64_t block_bytes(const Launch& launch, const ModelConfig& config) {
  if (launch.deepseek_v4) {
    constexpr int64_t kRow = 584;
    return layers_of_ratio(config, 4) * (64 * kRow + 64 * (index_width(config) + 4)) +
           layers_of_ratio(config, 128) * 2 * kRow;
  }
  int64_t bytes = launch.layers * layer_block_bytes(launch);
  if (launch.selects)
    bytes += selecting_layers(launch, config) * launch.block * (index_width(config) + 4);
  return bytes;
}

int64_t slot_bytes(const Launch& launch, const ModelConfig& config) {
  const ConfigView text = config.text();
  const int64_t all = config.layers();
  if (launch.deepseek_v4) {
    const int64_t width = config.head_dim(), fourths = layers_of_ratio(config, 4);
    const int64_t window = text.integer({"sliding_window"}, 128, {1, 1 << 20});
    return up(all * window * 584) + up(fourths * 16 * 2 * width * 4) +
           up(fourths * 16 * 2 * index_width(config) * 4) +
           up(layers_of_ratio(config, 128) * 256 * width * 4);
  }
  if (!launch.hybrid) return 0;
  const int64_t linear = all - launch.layers;
  const int64_t k_heads = text.required({"linear_num_key_heads"}, kHead);
  const int64_t k_dim = text.required({"linear_key_head_dim"}, kHead);
  const int64_t v_heads = text.required({"linear_num_value_heads"}, kHead);
  const int64_t v_dim = text.required({"linear_value_head_dim"}, kHead);
  const int64_t kernel =
      text.integer({"linear_conv_kernel_dim"}, 4, {1, 1024}) + launch.draft_tokens;
  return up(linear * (2 * k_heads * k_dim + v_heads * v_dim) / launch.tp * kernel * 2) +
         up(linear * (1 + launch.draft_tokens) * (v_heads / launch.tp) * v_dim * k_dim * 2);
}

}  // namespace plimsoll::engines::lmdeploy
