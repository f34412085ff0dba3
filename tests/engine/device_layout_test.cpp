// Memory that a launch on a device takes, and its places.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/units.h"
#include "engine/engine.h"
#include "engine/specs.h"
#include "engine/test_device.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using Catch::Contains;
using testing::TestDeviceFootprint;

namespace {

const TestDeviceFootprint kDeviceFootprint(backend::cpu_footprint(), {});

EnginePlan plan_with(const EngineOptions& options) {
  return plan_engine(testing::make_spec({}), options, kDeviceFootprint);
}

/// Eight sequences at once, and so many KV blocks.
EngineOptions for_eight(int64_t blocks) {
  EngineOptions options;
  options.max_num_seqs = 8;
  options.num_kv_blocks = blocks;
  return options;
}

}  // namespace

TEST_CASE("a budget is filled with KV blocks to the last") {
  EngineOptions options = for_eight(100);
  const EnginePlan hundred = plan_with(options);
  options.num_kv_blocks.reset();
  SECTION("exactly") {
    options.memory_budget = hundred.total_bytes;
    CHECK(plan_with(options).num_kv_blocks == 100);
    CHECK(plan_with(options).total_bytes == hundred.total_bytes);
    options.memory_budget = hundred.total_bytes - 1;
    CHECK(plan_with(options).num_kv_blocks == 99);
  }
  SECTION("never beyond") {
    for (size_t more = 0; more < 100'000'000; more = 2 * more + 12'345) {
      options.memory_budget = hundred.total_bytes + more;
      const EnginePlan plan = plan_with(options);
      CHECK(plan.total_bytes <= *options.memory_budget);
      CHECK(plan.total_bytes + plan.kv_block_bytes > *options.memory_budget);
    }
  }
  SECTION("nor by asking for blocks") {
    options.memory_budget = hundred.total_bytes;
    options.num_kv_blocks = 100;
    CHECK(plan_with(options).total_bytes == hundred.total_bytes);
    options.num_kv_blocks = 101;
    CHECK_THROWS_WITH(plan_with(options), Contains("--num-gpu-blocks-override 100 would fit"));
  }
  SECTION("one sequence must fit") {
    options.memory_budget = hundred.total_bytes - 80 * hundred.kv_block_bytes;
    try {
      plan_with(options);
      FAIL("20 blocks hold no 512 tokens");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::does_not_fit);
      CHECK_THAT(error.what(), Contains("--max-model-len 509 (or auto)") &&
                                   Contains("--gpu-memory-utilization") &&
                                   Contains("leaves 20 blocks"));
    }
    options.auto_model_len = true;
    // 20 blocks hold 320 tokens, and steps for shorter contexts leave more blocks.
    CHECK(plan_with(options).max_model_len == 509);
    options.auto_model_len = false;
    options.max_model_len = 509;
    CHECK(plan_with(options).num_kv_blocks >= 32);
    options.max_model_len = 510;
    CHECK_THROWS_AS(plan_with(options), Error);
    options.max_model_len = 0;
    options.auto_model_len = true;
    CHECK(plan_with(options).num_kv_blocks >= 20);
    options.memory_budget = 1000;
    CHECK_THROWS_WITH(plan_with(options), Contains("leaves 0 blocks: set a budget of"));
  }
}

TEST_CASE("what a refusal names instead would fit") {
  // The size or count that stands behind these words, up to a bracket or "would fit".
  const auto size_behind = [](const std::string& text, const std::string& words) {
    const size_t at = text.find(words);
    REQUIRE(at != std::string::npos);
    std::string size = text.substr(at + words.size());
    size = size.substr(0, std::min(size.find(" ("), size.find(" would")));
    std::erase(size, ' ');
    return parse_size(size);
  };
  const auto said = [](const EngineOptions& options) -> std::string {
    try {
      plan_with(options);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::does_not_fit);
      return error.what();
    }
    return "fits";
  };
  for (int64_t length = 500; length <= 512; ++length) {
    INFO(length);
    EngineOptions options = for_eight(100);
    options.num_kv_blocks.reset();
    options.max_model_len = length;
    options.memory_budget = 1000;
    options.memory_budget = size_behind(said(options), "set a budget of ");
    CHECK(said(options) == "fits");
  }
  const EnginePlan hundred = plan_with(for_eight(100));
  for (const bool by_bytes : {false, true}) {
    EngineOptions options = for_eight(101);
    if (by_bytes) {
      options.num_kv_blocks.reset();
      options.kv_cache_memory = 101 * hundred.kv_block_bytes;
    }
    options.memory_budget = hundred.total_bytes + hundred.kv_block_bytes - 1;
    const std::string words = by_bytes ? "--kv-cache-memory " : "--num-gpu-blocks-override ";
    const auto fitting = static_cast<int64_t>(size_behind(said(options), words));
    const auto ask = [&](int64_t most) {
      (by_bytes ? void(options.kv_cache_memory = most) : void(options.num_kv_blocks = most));
      return said(options);
    };
    CHECK(ask(fitting) == "fits");
    const auto block = static_cast<int64_t>(hundred.kv_block_bytes);
    CHECK(ask(fitting + (by_bytes ? block : 1)) != "fits");
  }
}

TEST_CASE("a cache of so many bytes needs a budget that holds it") {
  EngineOptions options = for_eight(100);
  const EnginePlan hundred = plan_with(options);
  options.num_kv_blocks.reset();
  options.kv_cache_memory = 100 * hundred.kv_block_bytes;
  options.memory_budget = hundred.total_bytes;
  CHECK(plan_with(options).num_kv_blocks == 100);
  options.memory_budget = hundred.total_bytes - 1;
  CHECK_THROWS_AS(plan_with(options), Error);
}

TEST_CASE("sizes of steps that are recorded") {
  EngineOptions options;
  const auto sizes = [&] {
    return plan_engine(testing::make_spec({}), options, kDeviceFootprint).recorded_sizes;
  };
  options.max_num_seqs = 6;
  CHECK(sizes() == std::vector<int64_t>{1, 2, 4, 6});
  options.max_num_seqs = 24;
  CHECK(sizes() == std::vector<int64_t>{1, 2, 4, 8, 16, 24});
  options.max_num_seqs = 1024;
  CHECK(sizes().size() == 43);
  CHECK(sizes().back() == 1024);
  options.max_num_seqs = 100;
  CHECK(sizes().back() == 100);
  options.largest_recorded = 40;
  CHECK(sizes() == std::vector<int64_t>{1, 2, 4, 8, 16, 24, 32, 40});
  options.largest_recorded = 200;  // no more than there are sequences
  CHECK(sizes().back() == 100);
  options.largest_recorded = 8;
  options.capture_sizes = std::vector<int64_t>{200, 8, 1, 8};
  CHECK(sizes() == std::vector<int64_t>{1, 8});
  options.capture_sizes = std::vector<int64_t>{};
  CHECK(sizes().empty());
  options.capture_sizes = std::vector<int64_t>{0};
  CHECK_THROWS_WITH(sizes(), Contains("--cudagraph-capture-sizes: 0"));
  CHECK(plan_engine(testing::make_spec({}), {}, backend::cpu_footprint()).recorded_sizes.empty());
}

TEST_CASE("a device has an arena of its own, the host the rest") {
  const EnginePlan plan = plan_with({});
  std::vector<std::string> device, host;
  for (const memory::Region& region : plan.regions) device.push_back(region.name);
  for (const memory::Region& region : plan.host_regions) host.push_back(region.name);
  CHECK(device == std::vector<std::string>{"weights", "kv blocks", "batch metadata", "drawn tokens",
                                           "device workspace", "step scratch"});
  CHECK(host == std::vector<std::string>{"batch metadata", "drawn tokens", "batch metadata",
                                         "drawn tokens", "sampling values", "sampling ids",
                                         "logits staging", "host workspace"});
  CHECK(plan.host_bytes == plan.host_regions.back().offset + plan.host_regions.back().bytes);
  CHECK(plan.max_num_batched_tokens == 8192);
  CHECK(plan.max_num_seqs == 1024);
}
