// The cache's arithmetic against a reference in 128 bits, and its properties.
#include "vllm/kv/kv_plan.h"

#include <catch2/catch.hpp>
#include <random>

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

__extension__ typedef __int128 Wide;

/// A random model of full and sliding layers, of one page size.
ModelShape random_shape(std::mt19937_64& random) {
  ModelShape shape;
  const auto layers = static_cast<int64_t>(1 + random() % 90);
  const auto every = static_cast<int64_t>(1 + random() % 6);
  const auto token = static_cast<int64_t>(64 << (random() % 7));
  const auto window = static_cast<int64_t>(128 << (random() % 6));
  for (int64_t i = 0; i < layers; ++i) {
    KvLayer layer;
    layer.kind = (i + 1) % every == 0 ? KvKind::full : KvKind::sliding;
    layer.window = layer.kind == KvKind::full ? 0 : window;
    layer.token_bytes = token;
    shape.kv_layers.push_back(layer);
  }
  return shape;
}

Wide reference_blocks(const KvPlan& plan, int64_t length, int64_t in_flight) {
  Wide sum = 0;
  for (const KvGroup& group : plan.groups()) {
    const KvSpec& spec = group.layers.front();
    Wide tokens = length;
    if (spec.kind == KvKind::sliding) {
      const Wide held = Wide{spec.window} - 1 + in_flight;
      tokens = held < tokens ? held : tokens;
    }
    sum +=
        (tokens + spec.block_size - 1) / spec.block_size + (spec.kind == KvKind::sliding ? 1 : 0);
  }
  return sum;
}

}  // namespace

TEST_CASE("blocks, need and the longest request, for random models, lengths and budgets") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 3000; ++i) {
    const ModelShape shape = random_shape(random);
    KvOptions options;
    options.max_model_len = static_cast<int64_t>(1 + random() % (1 << 20));
    options.in_flight_tokens = static_cast<int64_t>(1 << (random() % 15));
    const KvPlan plan(shape, options);
    const auto budget = static_cast<int64_t>(random() % (uint64_t{1} << 41));
    REQUIRE(Wide{plan.blocks_for(budget)} == Wide{budget} / plan.bytes_per_block().value());
    const int64_t length = options.max_model_len;
    REQUIRE(Wide{plan.blocks_per_request(length).value()} ==
            reference_blocks(plan, length, options.in_flight_tokens));
    const Amount usable = plan.usable(budget);
    const int64_t longest = usable > Amount{0} ? plan.longest_request(usable, length) : 0;
    if (longest > 0) REQUIRE(plan.bytes_per_request(longest) <= usable);
    if (longest < length && usable > Amount{0})
      REQUIRE(plan.bytes_per_request(longest + 1) > usable);
  }
}

TEST_CASE("a hybrid's block ends where every recurrent layer exports its state") {
  const auto block = [](std::vector<int64_t> checkpoints) {
    ModelShape shape;
    shape.attention_token_bytes = 1024;
    KvLayer full;
    full.token_bytes = 1024;
    shape.kv_layers.push_back(full);
    for (const int64_t checkpoint : checkpoints) {
      KvLayer state;
      state.kind = KvKind::state;
      state.token_bytes = 10 * 1024;
      state.checkpoint = checkpoint;
      shape.kv_layers.push_back(state);
    }
    KvOptions options;
    options.max_model_len = 8192;
    return KvPlan(shape, options).block_size();
  };
  CHECK(block({64}) == 64);
  CHECK(block({64, 64}) == 64);
  CHECK(block({64, 48}) == 192);
  CHECK(block({64, 0}) == 16);  // one exports none within a prefill
}

TEST_CASE("every layer is in one group, and more budget or a shorter request never fits less") {
  std::mt19937_64 random(13);
  for (int i = 0; i < 2000; ++i) {
    const ModelShape shape = random_shape(random);
    KvOptions options;
    options.max_model_len = 65536;
    options.in_flight_tokens = 16384;
    const KvPlan plan(shape, options);
    int64_t layers = 0;
    for (const int64_t size : plan.group_sizes()) layers += size;
    REQUIRE(layers == static_cast<int64_t>(shape.kv_layers.size()));
    const auto budget = static_cast<int64_t>(random() % (uint64_t{1} << 38));
    REQUIRE(plan.blocks_for(budget) <= plan.blocks_for(budget + plan.bytes_per_block().value()));
    const auto length = static_cast<int64_t>(1 + random() % 65535);
    REQUIRE(plan.blocks_per_request(length) <= plan.blocks_per_request(length + 1));
  }
}

TEST_CASE("sizes without end never fit") {
  ModelShape shape;
  KvLayer layer;
  layer.token_bytes = Amount::kMost;
  shape.kv_layers.assign(3, layer);
  KvOptions options;
  options.max_model_len = 4096;
  const KvPlan plan(shape, options);
  CHECK(plan.blocks_for(Amount{int64_t{1} << 62}) <= 0);
  CHECK(plan.longest_request(int64_t{1} << 62, 4096) == 0);
}

TEST_CASE("groups of published models") {
  struct Case {
    const char* model;
    int64_t sliding, full;
    std::vector<int64_t> groups;
  };
  const std::vector<Case> cases = {
      {"gemma-3-27b", 52, 10, {9, 9, 9, 9, 8, 8, 10}},
      {"gemma-3-4b", 29, 5, {5, 5, 5, 5, 5, 4, 5}},
      {"gemma-2-9b", 21, 21, {21, 21}},
      {"gpt-oss-20b", 12, 12, {12, 12}},
  };
  for (const Case& c : cases) {
    INFO(c.model);
    ModelShape shape;
    KvLayer layer;
    layer.token_bytes = 2048;
    layer.kind = KvKind::sliding;
    layer.window = 1024;
    shape.kv_layers.assign(static_cast<size_t>(c.sliding), layer);
    layer.kind = KvKind::full;
    layer.window = 0;
    shape.kv_layers.insert(shape.kv_layers.end(), static_cast<size_t>(c.full), layer);
    KvOptions options;
    options.max_model_len = 131072;
    CHECK(KvPlan(shape, options).group_sizes() == c.groups);
  }
}

TEST_CASE("groups are as large as the larger kind of layers below a ratio, not at it") {
  struct Row {
    double factor;
    int sliding;  // layers, beside four of full attention
    size_t groups;
  };
  for (const Row& row :
       {Row{1.25, 4, 2}, Row{1.25, 5, 3}, Row{1.5, 5, 2}, Row{1.5, 6, 3}, Row{1.5, 8, 3}}) {
    INFO(row.sliding << " layers, a factor of " << row.factor);
    ModelShape shape;
    for (int i = 0; i < 4 + row.sliding; ++i) {
      KvLayer layer;
      layer.kind = i < 4 ? KvKind::full : KvKind::sliding;
      layer.window = i < 4 ? 0 : 128;
      layer.token_bytes = 1024;
      shape.kv_layers.push_back(layer);
    }
    KvOptions options;
    options.max_model_len = 8192;
    options.group_factor = row.factor;
    CHECK(KvPlan(shape, options).groups().size() == row.groups);
  }
}

TEST_CASE("a request holds a state, copies of it for prefixes, and one for each drafted token") {
  struct Row {
    StateMode mode;
    int64_t checkpoint, drafted, blocks;
  };
  for (const Row& row : {Row{StateMode::none, 0, 0, 1}, Row{StateMode::none, 0, 3, 1 + 3},
                         Row{StateMode::align, 0, 0, 2}, Row{StateMode::align, 0, 3, 2 + 3},
                         Row{StateMode::align, 64, 0, 3}, Row{StateMode::align, 64, 3, 3 + 3}}) {
    INFO(row.blocks << " blocks");
    ModelShape shape;
    shape.attention_token_bytes = 1024;
    KvLayer full, state;
    full.token_bytes = 1024;
    state.kind = KvKind::state;
    state.token_bytes = 10 * 1024;
    state.checkpoint = row.checkpoint;
    shape.kv_layers = {full, state};
    KvOptions options;
    options.max_model_len = 8192;
    options.states.mode = row.mode;
    options.states.drafted = row.drafted;
    int64_t blocks = 0;
    for (const GroupNeed& need : KvPlan(shape, options).group_needs()) blocks += need.state_blocks;
    CHECK(blocks == row.blocks);
  }
}

TEST_CASE("a cache of exactly one block holds that block's tokens") {
  ModelShape shape;
  KvLayer layer;
  layer.token_bytes = 1024;
  shape.kv_layers = {layer, layer};
  KvOptions options;
  options.max_model_len = 8192;
  const KvPlan plan(shape, options);
  const Amount block = plan.bytes_per_block();
  CHECK(plan.longest_request(block - 1, 8192) == 0);
  CHECK(plan.longest_request(block, 8192) == plan.block_size());
  CHECK(plan.longest_request(block * 2 - 1, 8192) == plan.block_size());
  CHECK(plan.longest_request(block * 2, 8192) == 2 * plan.block_size());
}
