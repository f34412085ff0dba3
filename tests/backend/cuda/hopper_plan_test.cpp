// Works of prefill on Hopper, carried out by a host twin of the kernel, against the plain
// reference.
#include "backend/cuda/hopper_plan.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "backend/cuda/flash_input.h"
#include "backend/cuda/footprint.h"
#include "backend/cuda/hopper_twin.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::backend::cuda;
using testing::Batch;
using testing::limits_of;
using testing::make_input;
using testing::Sequences;

namespace {

model::AttentionSpec heads_of(int64_t head_dim, int64_t window) {
  model::AttentionSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = head_dim;
  spec.window = window;
  spec.scale = 0.25f;
  return spec;
}

FlashLimits hopper_limits_of(const Sequences& sequences, int64_t multiprocessors) {
  FlashLimits limits = limits_of(sequences, multiprocessors, 0);
  limits.hopper = true;
  return limits;
}

/// A planner that uses Hopper's kernels from `from` tokens of context, with a batch planned.
struct HopperPlan {
  FlashPlanner planner;
  std::vector<std::byte> slab;

  HopperPlan(const FlashShape& shape, const FlashLimits& limits, const Batch& batch, int64_t from)
      : planner(shape, limits), slab(planner.layout().bytes) {
    planner.use_hopper(from);
    planner.plan(batch.view(), slab);
  }
};

/// Works by block, in tiles of KV.
std::vector<int64_t> loads_of(const HopperWorks& works, int64_t blocks, int64_t head_dim,
                              int64_t window) {
  std::vector<int64_t> loads;
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t load = 0;
    for (int32_t at = works.start[block]; at < works.start[block + 1]; ++at) {
      const HopperPiece piece = works.piece(at);
      const HopperRange range =
          hopper_range(piece.tile, piece.rows, piece.context, head_dim, window);
      load += range.end - range.first;
    }
    loads.push_back(load);
  }
  return loads;
}

}  // namespace

TEST_CASE("works for Hopper and the other launches together are attention") {
  std::mt19937 random(7);
  const Sequences sequences = {{256, 256}, {1, 40}, {300, 777}, {17, 33}, {0, 0}, {258, 900}};
  size_t number = 0;
  for (const int64_t head_dim : {64, 128, 256})
    for (const int64_t window : {0, 1, 90, 400}) {
      if (!testing::is_taken(number++, 5)) continue;
      INFO("heads of " << head_dim << ", window " << window);
      const model::AttentionSpec spec = heads_of(head_dim, window);
      const Batch batch(sequences);
      const FlashLimits limits = hopper_limits_of(sequences, 7);
      const HopperPlan plan(flash_shape(spec), limits, batch, 300);
      REQUIRE(plan.planner.hopper_blocks() == 7);
      const reference::TwinInput in = make_input(spec, sequences, batch, random);
      HopperWorks works = plan.planner.hopper_works(plan.slab.data());
      works.query_start = batch.query_start.data();
      works.context_length = batch.context_length.data();
      works.table_stride = static_cast<int32_t>(batch.table_stride);
      reference::HopperTwin twin(in, works);
      const std::vector<double>& long_ones = twin.run(plan.planner.hopper_blocks());
      // The third and the last sequence have context enough; the first has not.
      const int64_t columns = spec.heads * head_dim;
      CHECK(std::ranges::count_if(long_ones, [](double x) {
              return x != reference::FlashTwin::kUnwritten;
            }) == (300 + 258) * columns);
      reference::FlashTwin others(in, plan.planner, plan.slab, limits, {});
      const std::vector<double>& out = others.run(long_ones);
      for (size_t b = 0; b < sequences.size(); ++b) {
        INFO("sequence " << b);
        CHECK(testing::largest_difference(in, out, b) < 1e-11);
      }
    }
}

TEST_CASE("prefills go to Hopper's kernels where they are long and keep the card busy") {
  CHECK(pays_on_hopper(kLeastHopperRows, kHopperFrom, kHopperFrom));
  CHECK_FALSE(pays_on_hopper(kLeastHopperRows - 1, kHopperFrom, kHopperFrom));
  CHECK_FALSE(pays_on_hopper(kLeastHopperRows, kHopperFrom - 1, kHopperFrom));
  CHECK_FALSE(pays_on_hopper(8192, 8192, 0));

  const FlashShape shape = flash_shape(heads_of(128, 0));
  const auto blocks = [&](const Sequences& sequences, int64_t multiprocessors, int64_t from,
                          bool sees_ahead = false) {
    Batch batch(sequences);
    if (sees_ahead) batch.see_blocks(8);
    return HopperPlan(shape, hopper_limits_of(sequences, multiprocessors), batch, from)
        .planner.hopper_blocks();
  };
  CHECK(blocks({{512, 3000}}, 16, 2048) == 16);
  CHECK(blocks({{512, 3000}}, 17, 2048) == 0);  // 4 tiles of 4 heads
  CHECK(blocks({{512, 3000}, {512, 4000}}, 17, 2048) == 17);
  CHECK(blocks({{512, 2000}}, 16, 2048) == 0);
  CHECK(blocks({{512, 3000}}, 16, 0) == 0);
  CHECK(blocks({{512, 3000}}, 16, 2048, true) == 0);
  CHECK(blocks({{1, 3000}, {1, 5000}}, 1, 1) == 0);
}

TEST_CASE("Hopper's kernels are for plain causal attention, perhaps with a window") {
  CHECK(hopper_computes(heads_of(128, 0)));
  CHECK(hopper_computes(heads_of(64, 100)));
  CHECK_FALSE(hopper_computes(heads_of(96, 0)));
  const auto without = [](auto change) {
    model::AttentionSpec spec = heads_of(128, 64);
    change(spec);
    return !hopper_computes(spec) && flash_shape(spec) != flash_shape(heads_of(128, 64));
  };
  CHECK(without([](model::AttentionSpec& spec) { spec.soft_cap = 50; }));
  CHECK(without([](model::AttentionSpec& spec) { spec.sinks = 1; }));
  CHECK(without([](model::AttentionSpec& spec) { spec.alibi.slopes = 1; }));
  CHECK(without([](model::AttentionSpec& spec) { spec.indexer.most = 2048; }));
  CHECK(without([](model::AttentionSpec& spec) { spec.scale = 2; }));
  CHECK(without([](model::AttentionSpec& spec) { spec.window_kind = model::WindowKind::chunk; }));
}

TEST_CASE("a card's plans have room for Hopper's works where its cache allows them") {
  model::ModelSpec spec;
  model::LayerSpec layer;
  layer.attention = heads_of(128, 0);
  spec.layers.push_back(layer);
  const auto has_room = [&](const backend::CardFigures& card, DType kv) {
    return backend::flash_limits({.spec = &spec, .tokens = 8192, .sequences = 64, .kv_dtype = kv},
                                 card)
        .hopper;
  };
  CHECK(has_room({.compute_capability = 90}, DType::bf16));
  CHECK(has_room({.compute_capability = 90}, DType::f16));
  CHECK_FALSE(has_room({.compute_capability = 90}, DType::f32));
  CHECK_FALSE(has_room({.compute_capability = 90}, DType::f8_e4m3));
  CHECK_FALSE(has_room({.compute_capability = 80}, DType::bf16));
  CHECK_FALSE(has_room({.compute_capability = 100}, DType::bf16));
  CHECK_FALSE(has_room({.compute_capability = 90, .deterministic = true}, DType::bf16));

  // Sizes to the byte: 64 full tiles and 32 that may not be full, of four heads; 133 starts.
  const FlashLimits with = {
      .tokens = 8192, .sequences = 64, .context = 8192, .multiprocessors = 132, .hopper = true};
  FlashLimits without = with;
  without.hopper = false;
  const FlashShape shape = flash_shape(heads_of(128, 0));
  CHECK(flash_slab(with, shape).bytes - flash_slab(without, shape).bytes ==
        536 + 8 + 2 * 96 * 4 + 96 * 4 * 4);
}

TEST_CASE("blocks on Hopper have equal shares of a long prefill, the longest works first") {
  for (const auto& [sequences, worst] : std::vector<std::pair<Sequences, double>>{
           {{{8192, 8192}}, 1.03}, {{{8192, 32768}}, 1.05}, {{{2048, 2048}, {4000, 9000}}, 1.05}}) {
    const Batch batch(sequences);
    model::AttentionSpec spec = heads_of(128, 0);
    spec.heads = 32;
    spec.kv_heads = 8;
    const HopperPlan plan(flash_shape(spec), hopper_limits_of(sequences, 132), batch, 2048);
    REQUIRE(plan.planner.hopper_blocks() == 132);
    HopperWorks works = plan.planner.hopper_works(plan.slab.data());
    works.query_start = batch.query_start.data();
    works.context_length = batch.context_length.data();
    const std::vector<int64_t> loads = loads_of(works, 132, 128, 0);
    const auto all = double(std::accumulate(loads.begin(), loads.end(), int64_t{0}));
    CHECK(double(*std::ranges::max_element(loads)) <= worst * all / 132);
    for (int64_t block = 0; block < 132; ++block)
      for (int32_t at = works.start[block]; at + 1 < works.start[block + 1]; ++at) {
        const HopperPiece now = works.piece(at), next = works.piece(at + 1);
        const auto tiles = [](const HopperPiece& piece) {
          const HopperRange range = hopper_range(piece.tile, piece.rows, piece.context, 128, 0);
          return range.end - range.first;
        };
        CHECK(tiles(now) >= tiles(next));
      }
  }
}

TEST_CASE("any step within the limits finds room for its works") {
  std::mt19937 random(11);
  const auto draw = [&](int64_t low, int64_t high) {
    return static_cast<int32_t>(std::uniform_int_distribution<int64_t>(low, high)(random));
  };
  for (int run = 0; run < 200; ++run) {
    model::AttentionSpec spec = heads_of(std::vector<int64_t>{64, 128, 256}[run % 3], 0);
    FlashLimits limits{.tokens = draw(256, 3000),
                       .sequences = 12,
                       .context = 5000,
                       .multiprocessors = draw(1, 30),
                       .hopper = true};
    Sequences sequences;
    for (int64_t left = limits.tokens; left > 0 && sequences.size() < 12;) {
      const int32_t rows = std::min<int32_t>(draw(1, 600), static_cast<int32_t>(left));
      sequences.emplace_back(rows, draw(rows, 5000));
      left -= rows;
    }
    const Batch batch(sequences);
    CHECK_NOTHROW(HopperPlan(flash_shape(spec), limits, batch, draw(1, 2000)));
  }
}
