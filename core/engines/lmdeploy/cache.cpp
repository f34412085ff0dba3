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
    return config.compressed_layers(4) * (64 * kRow + 64 * (config.index_width() + 4)) +
           config.compressed_layers(128) * 2 * kRow;
  }
  int64_t bytes = launch.layers * layer_block_bytes(launch);
  if (launch.selects)
    bytes += std::min(launch.layers, config.indexing_layers().value_or(launch.layers)) *
             launch.block * (config.index_width() + 4);
  return bytes;
}

int64_t slot_bytes(const Launch& launch, const ModelConfig& config) {
  const ConfigView text = config.text();
  const int64_t all = config.layers();
  if (launch.deepseek_v4) {
    const int64_t width = config.head_dim(), fourths = config.compressed_layers(4);
    const int64_t window = text.integer({"sliding_window"}, 128, {1, 1 << 20});
    return up(all * window * 584) + up(fourths * 16 * 2 * width * 4) +
           up(fourths * 16 * 2 * config.index_width() * 4) +
           up(config.compressed_layers(128) * 256 * width * 4);
  }
  if (!launch.hybrid) return 0;
  const int64_t linear = all - launch.layers;
  const DeltaSizes delta = config.delta_sizes();
  const int64_t channels = 2 * delta.k_heads * delta.k_dim + delta.v_heads * delta.v_dim;
  return up(linear * channels / launch.tp * (delta.kernel + launch.draft_tokens) * 2) +
         up(linear * (1 + launch.draft_tokens) * (delta.v_heads / launch.tp) * delta.v_dim *
            delta.k_dim * 2);
}

}  // namespace plimsoll::engines::lmdeploy
