// Bounds of attention plans over random batches, and the choice of chunk sizes.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>

#include "backend/cuda/flash_fixture.h"
#include "backend/cuda/flash_split.h"
#include "base/rounding.h"
#include "like_cases.h"

using namespace plimsoll;
using backend::cuda::FlashKind;
using backend::cuda::FlashLaunch;
using backend::cuda::FlashLimits;
using backend::cuda::FlashPlanner;
using backend::cuda::FlashShape;
using testing::Batch;
using testing::Plan;
using testing::Sequences;

namespace {

int64_t pick(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

/// Small numbers as likely as large ones.
int64_t pick_size(std::mt19937& random, int64_t high) {
  const double exponent = std::uniform_real_distribution<double>(0, 1)(random);
  return static_cast<int64_t>(std::pow(static_cast<double>(high), exponent));
}

FlashShape random_shape(std::mt19937& random) {
  const int64_t kv_heads = pick_size(random, 32);
  const int64_t group = pick(random, 0, 9) == 0 ? pick(random, 1, 80) : pick_size(random, 12);
  const int64_t sizes[] = {64, 80, 96, 128, 256};
  return {kv_heads * group, kv_heads, sizes[pick(random, 0, 4)],
          pick(random, 0, 2) == 0 ? pick_size(random, 5000) : 0};
}

FlashLimits random_limits(std::mt19937& random) {
  FlashLimits limits;
  limits.sequences = pick_size(random, 300);
  limits.tokens = limits.sequences + pick_size(random, 3000);
  limits.context = pick_size(random, 150000) + 16;
  limits.multiprocessors = pick(random, 1, 160);
  limits.fixed_split = pick(random, 0, 3) == 0 ? 128 * pick(random, 1, 20) : 0;
  return limits;
}

Sequences random_sequences(std::mt19937& random, const FlashLimits& limits) {
  Sequences sequences;
  const bool decode_only = pick(random, 0, 1) == 0;
  const auto count = static_cast<size_t>(pick(random, 1, limits.sequences));
  int64_t left = limits.tokens;
  while (sequences.size() < count) {
    const int64_t others = static_cast<int64_t>(count - sequences.size()) - 1;
    const int64_t most = std::min(left - others, limits.context);
    const int64_t rows = decode_only || pick(random, 0, 2) > 0 ? 1 : pick_size(random, most);
    const int64_t length = std::max(rows, pick_size(random, limits.context));
    sequences.emplace_back(static_cast<int32_t>(rows), rows == 1 && pick(random, 0, 20) == 0
                                                           ? 0
                                                           : static_cast<int32_t>(length));
    left -= rows;
  }
  return sequences;
}

/// Query rows of each sequence must be covered by one launch, each of its tiles with each chunk
/// once, with as many chunks as the kernel takes it to have (prefill.cuh:2364).
void check_cover(const Plan& plan, const Sequences& sequences, const FlashShape& shape) {
  const auto& at = plan.planner.layout();
  std::map<int32_t, std::map<std::pair<int32_t, int32_t>, int>> seen;
  std::map<int32_t, const FlashLaunch*> launch_of;
  for (const FlashLaunch& launch : plan.planner.launches())
    for (int64_t i = launch.first_item; i < launch.first_item + launch.items; ++i) {
      if (plan.slab[at.item_valid + static_cast<size_t>(i)] == std::byte{0}) continue;
      const int32_t b = plan.number(at.item_sequence, i);
      if (!launch_of.emplace(b, &launch).second) REQUIRE(launch_of[b] == &launch);
      ++seen[b][{plan.number(at.item_tile, i), plan.number(at.item_chunk, i)}];
    }
  for (size_t b = 0; b < sequences.size(); ++b) {
    const auto [rows, length] = sequences[b];
    const auto& items = seen[static_cast<int32_t>(b)];
    if (rows == 0) {
      REQUIRE(items.empty());
      continue;
    }
    REQUIRE(launch_of.count(static_cast<int32_t>(b)) == 1);
    const FlashLaunch& launch = *launch_of[static_cast<int32_t>(b)];
    const int64_t tile = flash_tile(launch.kind);
    const int64_t tiles = divide_up(rows * shape.group(), tile);
    int64_t chunks = 1;
    if (is_split(launch.kind)) {
      const int64_t whole = std::max(length, 1);
      const int64_t reach = shape.window > 0 ? std::min(whole, shape.window - 1 + tile) : whole;
      chunks = divide_up(reach, plan.number(at.chunk_tokens, launch.index));
    }
    REQUIRE(static_cast<int64_t>(items.size()) == tiles * chunks);
    for (const auto& [item, count] : items) {
      REQUIRE(count == 1);
      REQUIRE(item.first < tiles);
      REQUIRE(item.second < chunks);
    }
  }
}

int64_t merged_rows(const Plan& plan, const FlashLaunch& launch) {
  return plan.number(plan.planner.layout().merge_start,
                     launch.first_merge + launch.index + launch.merge_rows);
}

}  // namespace

TEST_CASE("random plans keep their bounds", "[flash]") {
  std::mt19937 random(11);
  for (size_t i = 0; i < 10000; ++i) {
    if (!testing::is_taken_sanitized(i, 4)) continue;
    const FlashShape shape = random_shape(random);
    const FlashLimits limits = random_limits(random);
    const Sequences sequences = random_sequences(random, limits);
    INFO("batch " << i << ", " << sequences.size() << " sequences, " << shape.heads << "/"
                  << shape.kv_heads << " heads, window " << shape.window << ", fixed "
                  << limits.fixed_split);
    const Plan plan(shape, limits, Batch(sequences));  // throws where arrays overflow
    check_cover(plan, sequences, shape);
    int64_t rows = 0, grid = 0;
    for (const FlashLaunch& launch : plan.planner.launches()) {
      if (is_split(launch.kind)) rows = std::max(rows, merged_rows(plan, launch));
      grid += launch.items;
    }
    REQUIRE(rows <= backend::cuda::flash_partial_rows(limits, shape));
    if (limits.fixed_split == 0) {
      REQUIRE(rows <= limits.sequences + 4 * limits.multiprocessors);
    }
    REQUIRE(backend::cuda::flash_workspace_bytes(limits, shape) >=
            static_cast<size_t>(rows * shape.heads * (shape.head_dim + 1)) * sizeof(float));
    REQUIRE(grid <= plan.planner.layout().items);
  }
}

TEST_CASE("a step of one row per sequence has a fixed grid", "[flash]") {
  std::mt19937 random(12);
  for (int i = 0; i < 500; ++i) {
    const FlashShape shape = random_shape(random);
    const FlashLimits limits = random_limits(random);
    const auto count = static_cast<size_t>(pick(random, 1, limits.sequences));
    std::vector<FlashLaunch> first;
    for (int step = 0; step < 3; ++step) {
      Sequences sequences;
      for (size_t b = 0; b < count; ++b) {
        sequences.emplace_back(1, static_cast<int32_t>(pick(random, 0, limits.context)));
      }
      const Plan plan(shape, limits, Batch(sequences));
      if (limits.fixed_split == 0) REQUIRE(plan.planner.recordable());
      if (!plan.planner.recordable()) continue;
      const auto launches = plan.planner.launches();
      REQUIRE(launches.size() == 1);
      if (first.empty()) first.assign(launches.begin(), launches.end());
      REQUIRE(launches[0].kind == first[0].kind);
      REQUIRE(launches[0].items == first[0].items);
      REQUIRE(launches[0].merge_rows == first[0].merge_rows);
    }
  }
  SECTION("and a prefill does not") {
    const Plan plan({4, 1, 64, 0}, {200, 2, 200, 4, 0}, Batch({{1, 100}, {150, 150}}));
    CHECK_FALSE(plan.planner.recordable());
  }
}

TEST_CASE("with fixed chunks a sequence is cut the same way in any batch", "[flash]") {
  const FlashShape shape{8, 2, 64, 0};
  const FlashLimits limits{600, 40, 10000, 132, 2048};
  const Plan alone(shape, limits, Batch({{1, 9000}}));
  Sequences sequences{{1, 9000}};
  for (int32_t i = 1; i < 40; ++i) sequences.emplace_back(1 + i % 3, 200 * i);
  const Plan among(shape, limits, Batch(sequences));
  for (const Plan* plan : {&alone, &among}) {
    const FlashLaunch& launch = plan->planner.launches()[0];
    const auto& at = plan->planner.layout();
    CHECK(launch.kind == FlashKind::split16);
    CHECK(plan->number(at.chunk_tokens, launch.index) == 2048);
    CHECK(plan->number(at.merge_start, 1) - plan->number(at.merge_start, 0) == 5);
  }
}

TEST_CASE("sizes of plans grow with their limits", "[flash]") {
  std::mt19937 random(13);
  for (int i = 0; i < 2000; ++i) {
    const FlashShape shape = random_shape(random);
    const FlashLimits small = random_limits(random);
    FlashLimits large = small;
    large.tokens += pick(random, 0, 100);
    large.sequences += pick(random, 0, 100);
    large.context += pick(random, 0, 10000);
    large.multiprocessors += pick(random, 0, 20);
    FlashShape wide = shape;
    const int64_t more = pick(random, 0, 3);
    wide.heads += more * shape.group();
    wide.kv_heads += more;
    CHECK(backend::cuda::flash_workspace_bytes(large, shape) >=
          backend::cuda::flash_workspace_bytes(small, shape));
    CHECK(backend::cuda::flash_workspace_bytes(small, wide) >=
          backend::cuda::flash_workspace_bytes(small, shape));
    CHECK(backend::cuda::flash_slab(large, shape).bytes >=
          backend::cuda::flash_slab(small, shape).bytes);
  }
  // Llama-3-8B with 1,024 sequences on an H200: 1,552 partial rows of 32 heads of 129 floats.
  const FlashLimits h200{8192, 1024, 131072, 132, 0};
  CHECK(backend::cuda::flash_partial_rows(h200, {32, 8, 128, 0}) == 1552);
  CHECK(backend::cuda::flash_workspace_bytes(h200, {32, 8, 128, 0}) == 1552u * 32 * 129 * 4);
}

TEST_CASE("batches beyond the limits are refused", "[flash]") {
  const FlashLimits limits{10, 2, 100, 4, 0};
  FlashPlanner planner({4, 1, 64, 0}, limits);
  std::vector<std::byte> slab(planner.layout().bytes);
  const auto plan = [&](const Sequences& sequences) {
    planner.plan(Batch(sequences).view(), slab);
  };
  CHECK_NOTHROW(plan({{9, 100}, {1, 1}}));
  CHECK_THROWS_AS(plan({{9, 100}, {2, 2}}), std::logic_error);
  CHECK_THROWS_AS(plan({{1, 1}, {1, 1}, {1, 1}}), std::logic_error);
  CHECK_THROWS_AS(plan({{1, 101}}), std::logic_error);
  CHECK_THROWS_AS(plan({{5, 4}}), std::logic_error);
  CHECK_THROWS_AS(planner.plan(Batch({{1, 1}}).view(), std::span(slab).first(slab.size() - 1)),
                  std::logic_error);
}

TEST_CASE("chunk sizes", "[flash]") {
  struct Row {
    const char* what;
    std::vector<backend::cuda::SplitWork> work;
    int64_t multiprocessors, kv_heads, chunk;
  };
  const auto equal = [](size_t count, int64_t tokens) {
    return std::vector<backend::cuda::SplitWork>(count, {tokens, 1, 1});
  };
  std::vector<backend::cuda::SplitWork> unequal = equal(30, 1024);
  unequal.push_back({100000, 1, 1});
  const std::vector<Row> rows = {
      {"one long: a wave", equal(1, 32768), 132, 8, 1024},
      {"one short: whole blocks of 128", equal(1, 500), 132, 8, 128},
      {"one of one block", equal(1, 10), 132, 8, 128},
      {"enough for all: whole", equal(512, 1536), 132, 8, 2048},
      {"one KV head: many chunks", equal(1, 32768), 132, 1, 128},
      {"one long among many: as the budget allows", unequal, 132, 8, 1536},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    const backend::cuda::SplitBudget budget{
        static_cast<int64_t>(row.work.size()) + 4 * row.multiprocessors,
        divide_up(4 * row.multiprocessors, row.kv_heads), row.kv_heads, 2 * row.multiprocessors};
    const int64_t chunk = choose_split(row.work, budget);
    CHECK(chunk == row.chunk);
    CHECK(chunk % 128 == 0);
    CHECK(split_cost(row.work, chunk, budget) >= 0);
  }
}
