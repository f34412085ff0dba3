// Which layers share a block, after vLLM's hybrid KV cache: layers are bucketed by window, every
// bucket is cut evenly into groups of at most g layers, and all groups draw blocks for g layers
// from one pool. Uniform models are one group of all layers.
//
//   Gemma-3-1B: 26 layers = 22 sliding + 4 full -> g = 4, groups of 4 4 4 4 3 3 (sliding) + 4
//   Gemma-2-2B: 26 layers = 13 sliding + 13 full -> g = 13, two groups
#include <algorithm>
#include <map>

#include "base/rounding.h"
#include "engine/forward/model.h"

namespace plimsoll::engine {

namespace {

constexpr size_t kEmptyBlock = 64;

using Buckets = std::map<int64_t, std::vector<int32_t>>;  // window -> layers

Buckets bucket_layers(const model::ModelSpec& spec) {
  Buckets buckets;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!spec.layers[i].has_attention() || spec.layers[i].attention.keys_of >= 0) continue;
    buckets[spec.layers[i].attention.window].push_back(static_cast<int32_t>(i));
  }
  return buckets;
}

/// Layers without keys of their own have the place of the layer whose keys they read.
void share_places(const model::ModelSpec& spec, KvLayout& layout) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const int32_t source = spec.layers[i].attention.keys_of;
    if (source < 0) continue;
    layout.layer_group[i] = layout.layer_group[source];
    layout.layer_offset[i] = layout.layer_offset[source];
  }
}

/// Layers that a block holds. The smallest bucket fills a block; buckets of nearly equal size
/// (within a half) share the largest one's, which wastes less than many small groups would.
size_t layers_per_block(const Buckets& buckets) {
  size_t smallest = 0, largest = 0;
  for (const auto& [window, layers] : buckets) {
    smallest = smallest == 0 ? layers.size() : std::min(smallest, layers.size());
    largest = std::max(largest, layers.size());
  }
  return std::max<size_t>(1, 2 * largest < 3 * smallest ? largest : smallest);
}

/// Layers of unlike heads share the pool too: each gets the room of the largest.
size_t slot_bytes(const model::ModelSpec& spec, int64_t block_size, DType dtype,
                  const backend::Footprint& footprint) {
  size_t slot = 0;
  for (const model::LayerSpec& layer : spec.layers) {
    slot = std::max(slot, layer_block(layer, block_size, dtype, footprint).bytes);
  }
  return slot == 0 ? kEmptyBlock : memory::Arena::aligned(slot);
}

}  // namespace

LayerBlock layer_block(const model::LayerSpec& layer, int64_t block_size, DType dtype,
                       const backend::Footprint& footprint) {
  if (!layer.has_attention() || layer.attention.keys_of >= 0) return {};
  const size_t bytes = footprint.kv_bytes(layer.attention, block_size, dtype);
  if (!layer.attention.indexer.chooses()) return {bytes, bytes};
  const size_t offset = memory::Arena::aligned(bytes);
  return {offset, offset + footprint.kv_bytes(layer.attention.index_heads(), block_size, dtype)};
}

KvLayout cut_kv_layout(const KvLayout& whole, const model::ModelSpec& stage, int64_t first_layer,
                       const backend::Footprint& footprint) {
  const size_t slot = slot_bytes(stage, whole.block_size, whole.dtype, footprint);
  const int64_t layers = std::ssize(stage.layers);
  KvLayout layout;
  layout.block_size = whole.block_size;
  layout.dtype = whole.dtype;
  layout.layer_group.resize(stage.layers.size());
  layout.layer_offset.resize(stage.layers.size());
  size_t most = 1;
  for (const KvGroup& group : whole.groups) {
    KvGroup& own = layout.groups.emplace_back(KvGroup{.window = group.window, .layers = {}});
    for (const int32_t of_model : group.layers) {
      const int64_t layer = of_model - first_layer;
      if (layer < 0 || layer >= layers) continue;
      const auto index = static_cast<size_t>(layer);
      layout.layer_group[index] = static_cast<int32_t>(layout.groups.size()) - 1;
      layout.layer_offset[index] = own.layers.size() * slot;
      own.layers.push_back(static_cast<int32_t>(layer));
    }
    most = std::max(most, own.layers.size());
  }
  layout.block_bytes = most * slot;
  return layout;
}

KvLayout make_kv_layout(const model::ModelSpec& spec, int64_t block_size, DType dtype,
                        const backend::Footprint& footprint) {
  const size_t slot = slot_bytes(spec, block_size, dtype, footprint);
  Buckets buckets = bucket_layers(spec);
  if (buckets.empty()) buckets[0] = {};  // blocks of nothing still count a sequence's tokens
  const size_t per_block = layers_per_block(buckets);
  KvLayout layout;
  layout.block_size = block_size;
  layout.dtype = dtype;
  layout.block_bytes = per_block * slot;
  layout.layer_group.resize(spec.layers.size());
  layout.layer_offset.resize(spec.layers.size());
  for (const auto& [window, layers] : buckets) {
    const size_t groups = std::max<size_t>(1, divide_up(layers.size(), per_block));
    for (size_t g = 0; g < groups; ++g) {
      KvGroup group{.window = window, .layers = {}};
      for (size_t i = g; i < layers.size(); i += groups) {
        const auto layer = static_cast<size_t>(layers[i]);
        layout.layer_group[layer] = static_cast<int32_t>(layout.groups.size());
        layout.layer_offset[layer] = group.layers.size() * slot;
        group.layers.push_back(layers[i]);
      }
      layout.groups.push_back(std::move(group));
    }
  }
  share_places(spec, layout);
  return layout;
}

int64_t blocks_of_sequence(const KvLayout& kv, int64_t length, int64_t batched_tokens) {
  int64_t blocks = 0;
  for (const KvGroup& group : kv.groups) {
    int64_t held = divide_up(length, kv.block_size);
    if (group.window > 0) {
      // A step sees window - 1 positions before its own, which may begin anywhere in a block.
      const int64_t seen = group.window - 1 + std::min(batched_tokens, length);
      held = std::min(held, divide_up(seen - 1, kv.block_size) + 1);
    }
    blocks += held;
  }
  return blocks;
}

int64_t longest_sequence(const KvLayout& kv, int64_t blocks, int64_t most, int64_t batched_tokens) {
  int64_t fits = 0, fails = most + 1;
  while (fails - fits > 1) {
    const int64_t middle = fits + (fails - fits) / 2;
    (blocks_of_sequence(kv, middle, batched_tokens) <= blocks ? fits : fails) = middle;
  }
  return fits;
}

}  // namespace plimsoll::engine
