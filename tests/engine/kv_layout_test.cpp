#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "backend/test_footprint.h"
#include "engine/forward/model.h"
#include "engine/specs.h"

using namespace plimsoll;
using engine::KvLayout;

namespace {

/// Every sixth layer sees everything, the others `window`: Gemma 3.
std::vector<int64_t> gemma3(size_t layers, int64_t window = 512) {
  std::vector<int64_t> windows(layers, window);
  for (size_t i = 5; i < layers; i += 6) windows[i] = 0;
  return windows;
}

KvLayout layout_of(std::vector<int64_t> windows) {
  testing::Shape shape;
  shape.windows = std::move(windows);
  return engine::make_kv_layout(testing::make_spec(shape), 16, DType::bf16,
                                testing::TestFootprint());
}

std::vector<size_t> group_sizes(const KvLayout& kv) {
  std::vector<size_t> sizes;
  for (const engine::KvGroup& group : kv.groups) sizes.push_back(group.layers.size());
  return sizes;
}

constexpr size_t kLayerBytes = 2 * 2 * 16 * 16 * 2;  // K, V; 2 heads of 16; 16 tokens; bf16

}  // namespace

TEST_CASE("layers are grouped by window, blocks are equal") {
  struct Row {
    const char* model;
    std::vector<int64_t> windows;
    std::vector<size_t> groups;
    size_t layers_per_block;
  };
  std::vector<int64_t> gemma2;
  for (int i = 0; i < 13; ++i) gemma2.insert(gemma2.end(), {4096, 0});
  const std::vector<Row> rows = {
      {"Llama, 16 layers", std::vector<int64_t>(16, 0), {16}, 16},
      {"Mistral, 8 sliding layers", std::vector<int64_t>(8, 4096), {8}, 8},
      {"Gemma-2-2B, 13 + 13", gemma2, {13, 13}, 13},
      {"Gemma-3-1B, 22 + 4", gemma3(26), {4, 4, 4, 4, 4, 3, 3}, 4},
      {"Gemma-3-27B, 52 + 10", gemma3(62), {10, 9, 9, 9, 9, 8, 8}, 10},
      {"4 + 5: nearly equal", {0, 0, 0, 0, 8, 8, 8, 8, 8}, {4, 5}, 5},
  };
  for (const Row& row : rows) {
    INFO(row.model);
    const KvLayout kv = layout_of(row.windows);
    CHECK(group_sizes(kv) == row.groups);
    CHECK(kv.block_bytes == row.layers_per_block * kLayerBytes);
  }
}

TEST_CASE("every layer has a place of its own in its group's blocks") {
  const std::vector<int64_t> windows = gemma3(26);
  const KvLayout kv = layout_of(windows);
  size_t seen = 0;
  for (size_t g = 0; g < kv.groups.size(); ++g) {
    for (size_t i = 0; i < kv.groups[g].layers.size(); ++i, ++seen) {
      const auto layer = static_cast<size_t>(kv.groups[g].layers[i]);
      CHECK(windows[layer] == kv.groups[g].window);
      CHECK(kv.layer_group[layer] == static_cast<int32_t>(g));
      CHECK(kv.layer_offset[layer] == i * kLayerBytes);
      CHECK(kv.layer_offset[layer] + kLayerBytes <= kv.block_bytes);
    }
  }
  CHECK(seen == windows.size());
}

TEST_CASE("layers of unlike heads get the room of the largest") {
  model::ModelSpec spec = testing::make_spec({});
  spec.layers[1].attention.kv_heads = 4;
  const KvLayout kv = engine::make_kv_layout(spec, 16, DType::bf16, testing::TestFootprint());
  CHECK(kv.block_bytes == 2 * 2 * kLayerBytes);
  CHECK(kv.layer_offset == std::vector<size_t>{0, 2 * kLayerBytes});
}

TEST_CASE("layers without attention have no room in blocks, states have theirs in slots") {
  model::ModelSpec spec = testing::make_spec({.windows = {0, 0, 0}});
  spec.layers[1].attention = {};
  spec.layers[1].recurrent =
      model::RecurrentSpec{.conv = {.width = 10, .taps = 4}, .heads = 2, .head_dim = 3, .state = 5};
  const KvLayout layout = engine::make_kv_layout(spec, 16, DType::bf16, testing::TestFootprint());
  REQUIRE(layout.groups.size() == 1);
  CHECK(layout.groups[0].layers == std::vector<int32_t>{0, 2});
  const engine::StateLayout states = engine::make_state_layout(spec);
  const size_t aligned = memory::Arena::aligned(1);
  CHECK(states.slot_bytes == memory::Arena::aligned(30 * 4) + memory::Arena::aligned(30 * 4));
  CHECK(states.state_offset[1] - states.layer_offset[1] == memory::Arena::aligned(30 * 4));
  for (model::LayerSpec& layer : spec.layers) layer.attention = {};
  const KvLayout empty = engine::make_kv_layout(spec, 16, DType::bf16, testing::TestFootprint());
  REQUIRE(empty.groups.size() == 1);
  CHECK(empty.block_bytes <= aligned);
}

TEST_CASE("blocks of a sequence") {
  const KvLayout full = layout_of({0, 0});
  CHECK(engine::blocks_of_sequence(full, 1, 64) == 1);
  CHECK(engine::blocks_of_sequence(full, 16, 64) == 1);
  CHECK(engine::blocks_of_sequence(full, 17, 64) == 2);

  // Window 48, one token a step: 48 positions lie in 4 blocks at most.
  const KvLayout sliding = layout_of({48});
  CHECK(engine::blocks_of_sequence(sliding, 1000, 1) == 4);
  CHECK(engine::blocks_of_sequence(sliding, 33, 1) == 3);
  // 64 tokens a step: 111 positions lie in 8 blocks at most.
  CHECK(engine::blocks_of_sequence(sliding, 1000, 64) == 8);
  CHECK(engine::blocks_of_sequence(layout_of({48, 0}), 1000, 64) == 8 + 63);
}

TEST_CASE("the bound of a window holds wherever a step begins") {
  for (const int64_t window : {1, 2, 15, 16, 17, 48}) {
    for (const int64_t step : {1, 2, 16, 33}) {
      const KvLayout kv = layout_of({window});
      int64_t most = 0;
      for (int64_t first = 0; first < 400; ++first) {
        const int64_t seen = std::max<int64_t>(0, first - window + 1);
        most = std::max(most, (first + step - 1) / 16 - seen / 16 + 1);
      }
      INFO("window " << window << ", step " << step);
      CHECK(engine::blocks_of_sequence(kv, 1000, step) == most);
    }
  }
}
