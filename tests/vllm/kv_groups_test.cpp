// Which layers share a block table, and what a block of them holds: rules of vLLM's
// v1/core/kv_cache_utils.py, asked one at a time.
#include "vllm/kv/kv_groups.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <random>

#include "launches.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::layer_of;

namespace {

KvSpec spec_of(KvKind kind, Amount page, int64_t window = 0) {
  KvSpec spec;
  spec.kind = kind;
  spec.block_size = 16;
  spec.page = spec.padded_page = page;
  spec.window = window;
  return spec;
}

using Specs = std::vector<KvSpec>;

void add(Specs& specs, int count, const KvSpec& spec) {
  for (int i = 0; i < count; ++i) {
    specs.push_back(spec);
    specs.back().layer = specs.size() - 1;
  }
}

std::vector<size_t> sizes_of(const std::vector<KvGroup>& groups) {
  std::vector<size_t> sizes;
  sizes.reserve(groups.size());
  for (const KvGroup& group : groups) sizes.push_back(group.layers.size());
  return sizes;
}

KvPlan plan_of(std::vector<KvLayer> layers, KvOptions options = {}) {
  ModelShape shape;
  shape.kv_layers = std::move(layers);
  shape.attention_token_bytes = 1024;
  options.max_model_len = 8192;
  return {shape, options};
}

}  // namespace

TEST_CASE("layers are of one type where their blocks are held for equally long") {
  using enum KvKind;
  const KvSpec whole = spec_of(full, 1024);
  CHECK(same_type(whole, spec_of(full, 2048)));
  CHECK(same_type(whole, spec_of(latent, 512)));
  CHECK_FALSE(same_type(whole, spec_of(sliding, 1024, 128)));
  CHECK_FALSE(same_type(spec_of(latent, 1024), spec_of(sliding_latent, 1024, 128)));
  KvSpec longer = whole;
  longer.block_size = 32;
  CHECK_FALSE(same_type(whole, longer));
  CHECK(same_type(spec_of(sliding, 1024, 128), spec_of(sliding, 2048, 128)));
  CHECK_FALSE(same_type(spec_of(sliding, 1024, 128), spec_of(sliding, 1024, 256)));
  CHECK_FALSE(same_type(spec_of(sliding, 1024, 128), spec_of(chunked, 1024, 128)));
  const KvSpec kept = spec_of(state, 1024);
  KvSpec other = kept;
  CHECK(same_type(kept, other));
  other.page = 512;
  CHECK(same_type(kept, other));
  other.padded_page = 512;
  CHECK_FALSE(same_type(kept, other));
  other = kept;
  other.replicated = true;
  CHECK_FALSE(same_type(kept, other));
}

TEST_CASE("layers of equal pages share a group where nothing but the layer differs") {
  const KvSpec one = spec_of(KvKind::sliding, 1024, 128);
  const std::vector<std::function<void(KvSpec&)>> changes = {
      [](KvSpec& spec) { spec.kind = KvKind::chunked; },
      [](KvSpec& spec) { spec.block_size = 32; },
      [](KvSpec& spec) { spec.page = 512; },
      [](KvSpec& spec) { spec.padded_page = 2048; },
      [](KvSpec& spec) { spec.window = 256; },
      [](KvSpec& spec) { spec.kernel = "other"; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    INFO(i);
    KvSpec other = one;
    changes[i](other);
    CHECK(sizes_of(groups_of_equal_pages({one, other, one, other}, 1.5)) ==
          std::vector<size_t>{2, 2});
  }
  KvSpec last = one;
  last.layer = 7;
  last.exports = true;
  CHECK(groups_of_equal_pages({one, last}, 1.5).size() == 1);
}

TEST_CASE("pages are made equal by longer blocks where they divide the largest, else by padding") {
  Specs specs = {spec_of(KvKind::full, 4096), spec_of(KvKind::sliding, 1024, 128),
                 spec_of(KvKind::full, 3072), spec_of(KvKind::state, 2048),
                 spec_of(KvKind::full, 0)};
  unify_pages(specs);
  for (const KvSpec& spec : specs) CHECK(spec.padded_page == Amount{4096});
  const std::vector<int64_t> blocks = {16, 64, 16, 16, 16};
  const std::vector<int64_t> pages = {4096, 4096, 3072, 2048, 0};
  for (size_t i = 0; i < specs.size(); ++i) {
    INFO(i);
    CHECK(specs[i].block_size == blocks[i]);
    CHECK(specs[i].page == Amount{pages[i]});
  }
}

TEST_CASE("packed groups are of the size that pads them least, the larger of equals") {
  // Three layers of two pages each, and seven with a window. In groups of 3 the seven want for two,
  // in groups of 4 the seven and the three want for one each.
  Specs specs;
  add(specs, 3, spec_of(KvKind::latent, 1024));
  add(specs, 3, spec_of(KvKind::latent, 256));
  add(specs, 7, spec_of(KvKind::chunked, 512, 128));
  CHECK(sizes_of(packed_groups(specs)) == std::vector<size_t>{6, 4, 3});
  // Five want for one in groups of 3, and for more in all others.
  specs.resize(6);
  add(specs, 5, spec_of(KvKind::chunked, 512, 128));
  CHECK(sizes_of(packed_groups(specs)) == std::vector<size_t>{6, 3, 2});
}

TEST_CASE("states and rings fill the block that the other layers need") {
  Specs latents;
  add(latents, 4, spec_of(KvKind::latent, 1024));
  add(latents, 4, spec_of(KvKind::latent, 256));
  REQUIRE(packed_groups(latents).size() == 1);  // a block of 5120 bytes
  struct Row {
    int64_t page, state;  // of eight rings, and of a state; 0: there is none
    std::vector<size_t> groups;
  };
  for (const Row& row :
       {Row{1024, 0, {8, 4, 4}}, Row{2048, 0, {8, 2, 2, 2, 2}},
        Row{4096, 0, {8, 1, 1, 1, 1, 1, 1, 1, 1}}, Row{2048, 8192, {8, 4, 4, 1}}}) {
    INFO(row.page << " " << row.state);
    Specs specs = latents;
    add(specs, 8, spec_of(KvKind::ring, row.page));
    if (row.state > 0) add(specs, 1, spec_of(KvKind::state, row.state));
    CHECK(sizes_of(packed_groups(specs)) == row.groups);
  }
  // Pages of no size take none.
  Specs empty = latents;
  add(empty, 8, spec_of(KvKind::ring, 0));
  CHECK(sizes_of(packed_groups(empty)) == std::vector<size_t>{8, 4, 4});
  // Of rings that fit into one block, no more in a group than a group of the latents is deep.
  Specs specs;
  add(specs, 2, spec_of(KvKind::latent, 1024));
  add(specs, 2, spec_of(KvKind::latent, 512));
  add(specs, 6, spec_of(KvKind::ring, 256));
  CHECK(sizes_of(packed_groups(specs)) == std::vector<size_t>{4, 2, 2, 2});
}

TEST_CASE("packed groups are no smaller than the type with most layers of each of several pages") {
  Specs specs;
  add(specs, 6, spec_of(KvKind::latent, 1024));
  add(specs, 6, spec_of(KvKind::latent, 256));
  add(specs, 3, spec_of(KvKind::chunked, 1024, 128));
  add(specs, 3, spec_of(KvKind::chunked, 256, 128));
  CHECK(sizes_of(packed_groups(specs)) == std::vector<size_t>{12, 6});
  std::ranges::rotate(specs, specs.begin() + 12);
  CHECK(sizes_of(packed_groups(specs)) == std::vector<size_t>{6, 12});
}

TEST_CASE("windows are states where no type of layer has pages of two sizes") {
  Specs specs;
  add(specs, 2, spec_of(KvKind::latent, 1024));
  add(specs, 4, spec_of(KvKind::sliding_latent, 1024, 128));
  CHECK(sizes_of(packed_groups(specs)) == std::vector<size_t>{2, 2, 2});
  specs.resize(2);
  add(specs, 4, spec_of(KvKind::sliding, 1024, 128));
  CHECK(sizes_of(packed_groups(specs)) == std::vector<size_t>{2, 2, 2});
  specs.resize(2);
  add(specs, 4, spec_of(KvKind::chunked, 1024, 128));
  CHECK(sizes_of(packed_groups(specs)) == std::vector<size_t>{2, 4});
}

TEST_CASE("packed or not, every layer is in one group") {
  std::mt19937_64 random(17);
  for (int i = 0; i < 3000; ++i) {
    Specs specs;
    for (size_t kinds = 1 + random() % 4; kinds > 0; --kinds) {
      const auto kind = static_cast<KvKind>(random() % 8);
      const int64_t window = kind == KvKind::full || kind == KvKind::latent ? 0 : 128;
      for (size_t pages = 1 + random() % 2; pages > 0; --pages)
        add(specs, static_cast<int>(1 + random() % 9),
            spec_of(kind, int64_t{256} << (random() % 4), window));
    }
    std::vector<int> held(specs.size());
    for (const KvGroup& group : packed_groups(specs)) {
      REQUIRE_FALSE(group.layers.empty());
      for (const KvSpec& spec : group.layers) ++held[spec.layer];
    }
    REQUIRE(held == std::vector<int>(specs.size(), 1));
    std::ranges::fill(held, 0);
    for (const KvGroup& group : groups_of_equal_pages(specs, 1.5))
      for (const KvSpec& spec : group.layers) ++held[spec.layer];
    REQUIRE(held == std::vector<int>(specs.size(), 1));
  }
}

TEST_CASE("kinds of caches differ by their window, their page and their block") {
  const auto kinds = [](std::vector<KvLayer> layers) { return plan_of(std::move(layers)).kinds(); };
  const auto two =
      kinds({layer_of(KvKind::sliding, 1024, 128), layer_of(KvKind::sliding, 1024, 256),
             layer_of(KvKind::sliding, 1024, 128)});
  REQUIRE(two.size() == 2);
  CHECK(two[0].layers == 2);
  CHECK(two[1].layers == 1);
  CHECK(kinds({layer_of(KvKind::full, 1024), layer_of(KvKind::full, 2048)}).size() == 2);
  KvLayer fixed = layer_of(KvKind::full, 1024);
  fixed.fixed_block = 32;
  CHECK(kinds({layer_of(KvKind::full, 1024), fixed}).size() == 2);
}

TEST_CASE(
    "a state that is kept for no prefixes is one block for the context, or for a stated size") {
  KvOptions options;
  options.states.mode = StateMode::none;
  for (const auto& [stated, block] : {std::pair{0, 8192}, {4096, 4096}}) {
    INFO(stated);
    options.states.block_size = stated;
    const KvPlan plan =
        plan_of({layer_of(KvKind::full, 1024), layer_of(KvKind::state, 64)}, options);
    REQUIRE(plan.kinds().size() == 2);
    CHECK(plan.kinds()[1].spec.block_size == block);
  }
}

TEST_CASE("layers of unlike kernels have groups of their own") {
  const auto groups = [](const char* kernel) {
    std::vector<KvLayer> layers = {layer_of(KvKind::full, 1024), layer_of(KvKind::full, 1024),
                                   layer_of(KvKind::sliding, 1024, 128),
                                   layer_of(KvKind::sliding, 1024, 128)};
    layers.back().kernel = kernel;
    return plan_of(layers).group_sizes();
  };
  CHECK(groups("") == std::vector<int64_t>{2, 2});
  CHECK(groups("other") == std::vector<int64_t>{1, 1, 1, 1});
}

TEST_CASE("a stage's part of the plan has its own layers, under the groups of all") {
  const KvPlan whole = plan_of({layer_of(KvKind::full, 1024), layer_of(KvKind::sliding, 1024, 128),
                                layer_of(KvKind::full, 1024), layer_of(KvKind::sliding, 1024, 256),
                                layer_of(KvKind::sliding, 1024, 128)});
  REQUIRE(whole.kinds().size() == 3);
  const auto part = [&](size_t first, size_t count) {
    const KvPlan plan = whole.part(first, count);
    std::vector<int64_t> layers;
    for (const KvKindCount& kind : plan.kinds())
      layers.push_back(kind.spec.window * 10 + kind.layers);
    return std::pair{layers, plan.bytes_per_block().value()};
  };
  using Part = std::pair<std::vector<int64_t>, int64_t>;
  constexpr int64_t kPage = 16 * 1024;
  CHECK(part(0, 1) == Part{{1}, kPage});
  CHECK(part(1, 2) == Part{{1281, 1}, kPage});
  CHECK(part(3, 2) == Part{{2561, 1281}, kPage});
  CHECK(part(5, 0) == Part{{}, 0});
  CHECK(whole.part(0, 5).group_sizes() == whole.group_sizes());
  CHECK(whole.part(1, 1).group_sizes() == std::vector<int64_t>{1});
}

TEST_CASE("a packed block ends where each layer's kernel takes whole pages") {
  // 64 entries of 100 bytes in a block of 256 tokens, in pages of 16 entries; and of windows.
  const auto bytes = [](int64_t kernel_block, int64_t stride) {
    KvLayer latents = layer_of(KvKind::latent, 100);
    latents.compression = 4;
    latents.kernel_block = kernel_block;
    KvLayer windows = layer_of(KvKind::sliding_latent, 10, 128);
    windows.stride = stride;
    ModelShape shape;
    shape.kernel = AttentionKernel::deepseek_v4;
    shape.packs_pages = true;
    shape.kv_layers = {latents, windows};
    KvOptions options;
    options.max_model_len = 8192;
    const KvPlan plan(shape, options);
    CHECK(plan.block_size() == 256);
    return plan.bytes_per_block().value();
  };
  CHECK(bytes(64, 700) == 11200);  // both 1600 and 700 divide it
  CHECK(bytes(64, 0) == 6400);
  CHECK(bytes(96, 700) == 11200);  // kernels read 32 tokens of 96: 800 bytes
  CHECK(bytes(256, 700) == 7000);  // a whole block is one of the kernel's
  CHECK(bytes(256, 0) == 6400);
  CHECK(bytes(0, 700) == 7000);
}

TEST_CASE("a plan without caches holds nothing") {
  const KvPlan plan = plan_of({});
  CHECK(plan.empty());
  CHECK(plan.concurrency(100, 8192) == 0);
  CHECK(plan.tokens(100, 8192) == 0);
  CHECK(plan.blocks_for(Amount{1} * kGiB) == 0);
  KvOptions options;
  options.tokens_by_concurrency = false;
  CHECK(plan_of({}, options).tokens(0, 8192) == 0);
  CHECK(GroupNeed{}.blocks(7) == Amount{7});
}
