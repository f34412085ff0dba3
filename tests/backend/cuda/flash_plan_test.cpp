// The plans of attention, carried out by a host twin of the kernel, against the plain reference.
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "backend/cuda/flash_fixture.h"
#include "backend/cuda/flash_input.h"

using namespace plimsoll;
using backend::cuda::FlashKind;
using backend::cuda::FlashLaunch;
using backend::cuda::FlashLimits;
using backend::cuda::FlashShape;
using testing::Batch;
using testing::largest_difference;
using testing::limits_of;
using testing::make_input;
using testing::Plan;
using testing::Sequences;

namespace {

model::AttentionSpec attention(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t window,
                               float soft_cap) {
  model::AttentionSpec spec;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.window = window;
  spec.soft_cap = soft_cap;
  spec.scale = 0.5f;
  return spec;
}

}  // namespace

TEST_CASE("plans compute attention", "[flash]") {
  struct Row {
    std::string what;
    model::AttentionSpec spec;
    Sequences sequences;
    int64_t multiprocessors = 4;
    int64_t fixed_split = 0;
    std::set<FlashKind> kinds;
  };
  using enum FlashKind;
  const std::vector<Row> rows = {
      {"one decode, short", attention(4, 1, 16, 0, 0), {{1, 5}}, 4, 0, {split16}},
      {"one decode, split", attention(4, 1, 16, 0, 0), {{1, 1500}}, 8, 0, {split16}},
      {"decodes of many lengths",
       attention(4, 2, 16, 0, 0),
       {{1, 1}, {1, 16}, {1, 17}, {1, 300}, {1, 900}, {1, 128}, {1, 129}},
       4,
       0,
       {split16}},
      {"decodes and padding",
       attention(4, 2, 16, 0, 0),
       {{1, 40}, {1, 700}, {1, 0}, {1, 0}},
       4,
       0,
       {split16}},
      {"padding with a window", attention(4, 2, 16, 20, 0), {{1, 40}, {1, 0}}, 4, 0, {split16}},
      {"prefill", attention(4, 1, 16, 0, 0), {{200, 200}}, 1, 0, {direct128}},
      {"small prefills, split",
       attention(4, 2, 16, 0, 0),
       {{40, 900}, {33, 1000}},
       64,
       0,
       {split64}},
      {"chunk of a long prompt", attention(3, 3, 16, 0, 0), {{70, 500}}, 1, 0, {direct128}},
      {"prefill of few packed rows",
       attention(4, 1, 16, 0, 0),
       {{10, 10}, {7, 100}},
       1,
       0,
       {direct64}},
      {"rows that share a tile with decodes",
       attention(2, 1, 16, 0, 0),
       {{8, 70}, {1, 300}, {3, 3}},
       4,
       0,
       {split16}},
      {"mixed step",
       attention(4, 2, 16, 0, 0),
       {{1, 400}, {90, 90}, {1, 33}, {20, 120}, {0, 0}},
       2,
       0,
       {split16, direct64, direct128}},
      {"three query heads for a KV head",
       attention(6, 2, 16, 0, 0),
       {{50, 130}, {1, 77}, {6, 9}},
       2,
       0,
       {split16, direct64, direct128}},
      {"forty query heads for a KV head",
       attention(40, 1, 16, 0, 0),
       {{1, 600}, {1, 3}},
       4,
       0,
       {split64}},
      {"seventy-one query heads for a KV head",
       attention(71, 1, 16, 0, 0),
       {{1, 300}, {3, 9}},
       4,
       0,
       {split64, direct128}},
      {"window of one", attention(4, 2, 16, 1, 0), {{1, 50}, {30, 60}}, 2, 0, {split16, direct64}},
      {"window below a block",
       attention(4, 2, 16, 5, 0),
       {{1, 50}, {60, 60}, {1, 4}},
       2,
       0,
       {split16, direct128}},
      {"window of many blocks, split",
       attention(4, 1, 16, 300, 0),
       {{1, 1000}, {1, 290}},
       16,
       0,
       {split16}},
      {"window in a prefill",
       attention(4, 2, 16, 40, 0),
       {{150, 150}, {65, 400}},
       1,
       0,
       {direct128}},
      {"window in a split prefill", attention(4, 1, 16, 200, 0), {{30, 700}}, 64, 0, {split64}},
      {"window, three heads in a group",
       attention(3, 1, 16, 33, 0),
       {{70, 170}, {5, 90}, {1, 99}},
       2,
       0,
       {split16, direct128}},
      {"soft cap", attention(4, 2, 16, 0, 2.f), {{1, 400}, {90, 90}}, 2, 0, {split16, direct128}},
      {"soft cap and window",
       attention(4, 2, 16, 50, 2.f),
       {{1, 400}, {90, 190}},
       2,
       0,
       {split16, direct128}},
      {"more rows than partial results have room for",
       attention(2, 2, 16, 0, 0),
       {{10, 30}, {1, 40}, {12, 12}},
       1,
       0,
       {split16, direct64}},
      {"large heads", attention(2, 1, 256, 0, 0), {{80, 100}, {1, 200}}, 1, 0, {split16, direct64}},
      {"fixed chunks",
       attention(4, 2, 16, 0, 0),
       {{1, 400}, {1, 128}, {1, 1}, {90, 90}, {2, 300}},
       2,
       128,
       {split16, direct64, direct128}},
      {"fixed chunks and a window",
       attention(4, 2, 16, 150, 0),
       {{1, 400}, {1, 90}, {2, 300}},
       2,
       128,
       {split16, direct64}},
      {"fixed chunks in many rounds",
       attention(2, 1, 16, 0, 0),
       {{1, 1900}, {1, 1800}, {1, 1920}, {1, 1700}, {1, 1919}, {1, 1793}},
       1,
       128,
       {split16}},
  };
  std::mt19937 random(7);
  for (const Row& row : rows)
    for (const reference::TwinTiles tiles :
         {reference::TwinTiles{128, 64, 64, 64}, reference::TwinTiles{64, 32, 16, 32},
          reference::TwinTiles{512, 64, 64, 16}}) {
      INFO(row.what << ", KV tile of decode " << tiles.split16);
      const Batch batch(row.sequences);
      const FlashLimits limits = limits_of(row.sequences, row.multiprocessors, row.fixed_split);
      const FlashShape shape{row.spec.heads, row.spec.kv_heads, row.spec.head_dim, row.spec.window};
      const Plan plan(shape, limits, batch);
      std::set<FlashKind> kinds;
      for (const FlashLaunch& launch : plan.planner.launches()) kinds.insert(launch.kind);
      CHECK(kinds == row.kinds);
      const reference::TwinInput in = make_input(row.spec, row.sequences, batch, random);
      reference::FlashTwin twin(in, plan.planner, plan.slab, limits, tiles);
      const std::vector<double>& out = twin.run();
      for (size_t b = 0; b < row.sequences.size(); ++b) {
        INFO("sequence " << b);
        // Sums of a few thousand doubles of size 1.
        CHECK(largest_difference(in, out, b) < 1e-11);
      }
    }
}

TEST_CASE("plans compute rows that see what is behind them", "[flash]") {
  struct Row {
    std::string what;
    model::AttentionSpec spec;
    Sequences sequences;
    int32_t image = 0;  // 0: all of a sequence
    int64_t multiprocessors = 4;
    FlashLimits::Cuts cuts = FlashLimits::Cuts::by_work;
    std::set<FlashKind> kinds;
  };
  using enum FlashKind;
  constexpr auto kNever = FlashLimits::Cuts::never;
  const std::vector<Row> rows = {
      {"segments, never cut",
       attention(3, 3, 72, 0, 0),
       {{200, 200}, {20, 20}, {1, 1}},
       0,
       64,
       kNever,
       {direct64, direct128}},
      {"a segment that would be cut", attention(2, 2, 16, 0, 0), {{40, 900}}, 0, 64, {}, {split64}},
      {"images, cut",
       attention(4, 2, 16, 0, 0),
       {{40, 900}, {1, 70}},
       25,
       64,
       {},
       {split16, split64}},
      {"images in few rows", attention(4, 2, 16, 0, 0), {{6, 100}}, 9, 4, {}, {split16}},
      {"images beyond a window",
       attention(4, 1, 16, 200, 0),
       {{30, 700}, {1, 900}},
       300,
       64,
       {},
       {split16, direct128}},
      {"few rows beyond a window",
       attention(2, 1, 16, 5, 0),
       {{8, 300}, {1, 40}},
       100,
       64,
       {},
       {split16, direct64}},
  };
  std::mt19937 random(8);
  for (const Row& row : rows) {
    INFO(row.what);
    Batch batch(row.sequences);
    if (row.image > 0) batch.see_blocks(row.image);
    FlashLimits limits = limits_of(row.sequences, row.multiprocessors, 0);
    limits.cuts = row.cuts;
    const FlashShape shape{row.spec.heads, row.spec.kv_heads, row.spec.head_dim, row.spec.window};
    CHECK((backend::cuda::flash_workspace_bytes(limits, shape) == 0) == (row.cuts == kNever));
    const Plan plan(shape, limits, batch);
    std::set<FlashKind> kinds;
    for (const FlashLaunch& launch : plan.planner.launches()) kinds.insert(launch.kind);
    CHECK(kinds == row.kinds);
    reference::TwinInput in = make_input(row.spec, row.sequences, batch, random);
    in.sees_all = row.image == 0;
    reference::FlashTwin twin(in, plan.planner, plan.slab, limits, {64, 32, 16, 32});
    const std::vector<double>& out = twin.run();
    for (size_t b = 0; b < row.sequences.size(); ++b) {
      INFO("sequence " << b);
      CHECK(largest_difference(in, out, b) < 1e-11);
    }
  }
}
