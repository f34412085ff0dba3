#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "backend/cuda/footprint.h"
#include "backend/test_footprint.h"
#include "base/error.h"
#include "engine/layout.h"
#include "engine/specs.h"
#include "engine/state_layout.h"
#include "engine/tiny_model.h"

using namespace plimsoll;
using Catch::Contains;
using engine::EngineLayout;
using engine::EngineOptions;

namespace {

using testing::kFootprint;

EngineLayout resolve(const EngineOptions& options, const testing::Shape& shape = {}) {
  return engine::resolve_layout(testing::make_spec(shape), options, kFootprint);
}

}  // namespace

TEST_CASE("defaults of a launch") {
  const EngineLayout layout = resolve({});
  CHECK(layout.max_model_len == 512);
  CHECK(layout.limits.sequences == 256);
  CHECK(layout.limits.batched_tokens == 2048);
  CHECK(layout.limits.table_stride == 32);
  CHECK(layout.limits.logits_rows == 256);
  // All that 256 sequences of 512 tokens can hold, far below the ceiling.
  CHECK(layout.num_blocks == 256 * 32);
}

TEST_CASE("scales that no cache of fp8 can have matter to such a cache alone") {
  model::ModelSpec spec = testing::make_spec({});
  spec.layers[1].attention.value_scale = 0;
  engine::EngineOptions options;
  CHECK_NOTHROW(engine::resolve_layout(spec, options, backend::cpu_footprint()));
  options.kv_dtype = DType::f8_e4m3;
  CHECK_THROWS_WITH(engine::resolve_layout(spec, options, backend::cpu_footprint()),
                    Contains("(layer 1)") && Contains("--kv-cache-dtype auto"));
}

TEST_CASE("what the kernels of a card cannot do for a model is told before anything is read") {
  const backend::CudaFootprint card({});
  const auto plan = [&](int64_t vocab, std::vector<int64_t> windows) {
    const testing::Shape shape{.vocab = vocab, .windows = std::move(windows)};
    return engine::resolve_layout(testing::make_spec(shape), {}, card);
  };
  CHECK_NOTHROW(plan(262208, {0, 0}));  // Gemma 3
  CHECK_THROWS_WITH(plan(1 << 20, {0, 0}),
                    Contains("a vocabulary of 1048576") && Contains("--device cpu"));
  CHECK_NOTHROW(plan(101, {8, 16, 24, 32, 40, 48, 56, 64}));
  CHECK_THROWS_WITH(plan(101, {8, 16, 24, 32, 40, 48, 56, 64, 0}),
                    Contains("9 groups of KV blocks") && Contains("--device cpu"));
}

TEST_CASE("mixers and mixtures that the kernels of a card do not hold are refused") {
  const backend::CudaFootprint card({});
  const auto check = [&](const model::ModelSpec& spec) {
    backend::check_card_limits(card, spec, 1);
  };
  const auto with_mixer = [](model::RecurrentKind kind, int64_t state) {
    model::ModelSpec spec = testing::make_spec({});
    spec.layers[1].recurrent = model::RecurrentSpec{.kind = kind, .state = state};
    return spec;
  };
  using enum model::RecurrentKind;
  CHECK_NOTHROW(check(with_mixer(mamba2, 256)));
  CHECK_THROWS_WITH(check(with_mixer(mamba2, 257)),
                    Contains("states of 257") && Contains("--device cpu"));
  CHECK_THROWS_WITH(check(with_mixer(linear, 300)), Contains("states of 300"));
  CHECK_NOTHROW(check(with_mixer(gated_delta, 256)));
  CHECK_THROWS_WITH(check(with_mixer(channel_delta, 257)),
                    Contains("keys of 257") && Contains("--device cpu"));
  CHECK_NOTHROW(check(with_mixer(gated_linear, 1000)));
  model::ModelSpec mixture =
      testing::make_spec({.mlp = model::MlpKind::experts, .experts = 1000, .experts_per_token = 2});
  mixture.layers[0].mlp.router.identities = 24;
  CHECK_NOTHROW(check(mixture));
  mixture.layers[0].mlp.router.identities = 25;
  CHECK_THROWS_WITH(check(mixture), Contains("2 of 1025 experts") && Contains("--device cpu"));
}

TEST_CASE("a card's plan has a slot of states for each sequence") {
  const model::ModelSpec spec =
      model::make_model_spec(model::read_config(testing::TinyModel::recipe("mamba")));
  EngineOptions options;
  options.max_num_seqs = 7;
  const engine::EnginePlan plan = engine::plan_engine(spec, options, backend::CudaFootprint({}));
  const auto states = std::ranges::find(plan.regions, "recurrent states", &memory::Region::name);
  REQUIRE(states != plan.regions.end());
  CHECK(states->bytes == 7 * engine::make_state_layout(spec).slot_bytes);
}

TEST_CASE("limits give way to one another as vLLM's do") {
  EngineOptions options;
  SECTION("more sequences raise the default of batched tokens") {
    options.max_num_seqs = 4096;
    CHECK(resolve(options).limits.batched_tokens == 4096);
  }
  SECTION("fewer batched tokens lower the default of sequences") {
    options.max_num_batched_tokens = 7;
    CHECK(resolve(options).limits.sequences == 7);
  }
  SECTION("asked for both, they must agree") {
    options.max_num_seqs = 8;
    options.max_num_batched_tokens = 7;
    CHECK_THROWS_WITH(resolve(options), Contains("--max-num-batched-tokens 7 is less than "
                                                 "--max-num-seqs 8"));
  }
  SECTION("no step holds more than all sequences' tokens") {
    options.max_num_seqs = 2;
    options.max_model_len = 100;
    CHECK(resolve(options).limits.batched_tokens == 200);
  }
  SECTION("the model's context is the longest") {
    options.max_model_len = 513;
    CHECK_THROWS_WITH(resolve(options), Contains("--max-model-len 513") && Contains("512"));
  }
  SECTION("absurd limits are refused") {
    options.max_num_seqs = int64_t{1} << 40;
    CHECK_THROWS_AS(resolve(options), Error);
  }
}

TEST_CASE("logits of large vocabularies come in fewer rows") {
  testing::Shape shape;
  shape.vocab = 128'000;
  CHECK(resolve({}, shape).limits.logits_rows == 131);
  shape.vocab = 2'000'000;
  CHECK(resolve({}, shape).limits.logits_rows == 32);
}

TEST_CASE("a sequence that does not fit the KV pool is refused with what would") {
  EngineOptions options;
  SECTION("by bytes") {
    // A block of 16 tokens takes 4096 bytes: 10 blocks.
    options.kv_cache_bytes = 43'000;
    CHECK_THROWS_WITH(resolve(options), Contains("one sequence of 512 tokens") &&
                                            Contains("--max-model-len 160 (or auto)") &&
                                            Contains("--cpu-kvcache-space 0.01"));
    try {
      resolve(options);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::does_not_fit);
    }
    options.max_model_len = 160;
    CHECK(resolve(options).num_blocks == 10);
  }
  SECTION("by the flag that was given") {
    options.kv_cache_memory = 43'000;
    CHECK_THROWS_WITH(resolve(options), Contains("for all of it set --kv-cache-memory 131072") &&
                                            !Contains("--cpu-kvcache-space"));
    options.kv_cache_memory = 131'072;
    CHECK(resolve(options).num_blocks == 32);
  }
  SECTION("by blocks") {
    options.num_kv_blocks = 31;
    CHECK_THROWS_WITH(resolve(options),
                      Contains("--num-gpu-blocks-override 32") && Contains("--max-model-len 496"));
    options.num_kv_blocks = 32;
    CHECK(resolve(options).num_blocks == 32);
  }
  SECTION("auto cuts the context") {
    options.kv_cache_bytes = 43'000;
    options.auto_model_len = true;
    CHECK(resolve(options).max_model_len == 160);
  }
  SECTION("not even auto helps a pool of nothing") {
    options.kv_cache_bytes = 100;
    options.auto_model_len = true;
    CHECK_THROWS_WITH(resolve(options), Contains("holds 0 blocks: set --cpu-kvcache-space"));
  }
}

TEST_CASE("plan names the regions of a launch") {
  const model::ModelSpec spec = testing::make_spec({});
  const engine::EnginePlan plan = engine::plan_engine(spec, {}, kFootprint);
  REQUIRE(plan.regions.size() > 3);
  CHECK(plan.regions[0].name == "weights");
  CHECK(plan.regions[1].name == "kv blocks");
  CHECK(plan.regions[1].bytes == static_cast<size_t>(plan.num_kv_blocks) * plan.kv_block_bytes);
  CHECK(plan.regions.back().name == "step scratch");
  CHECK(plan.total_bytes == plan.regions.back().offset + plan.regions.back().bytes);
}

namespace {

/// Fills the arrays with sequences of random lengths, each wholly in this step.
backend::BatchMeta random_batch(std::mt19937& random, const EngineLayout& layout,
                                engine::BatchArrays& batch, int64_t vocab) {
  engine::BatchSlab& arrays = batch.slab();
  const auto draw = [&](int64_t low, int64_t high) {
    return static_cast<int32_t>(std::uniform_int_distribution<int64_t>(low, high)(random));
  };
  const engine::StepLimits& limits = layout.limits;
  const int32_t sequences = draw(1, limits.sequences);
  int32_t rows = 0, wanted = 0;
  for (int32_t s = 0; s < sequences; ++s) {
    const int64_t left = limits.batched_tokens - rows - (sequences - s - 1);
    const int32_t length = draw(1, std::min(left, layout.max_model_len));
    arrays.query_start[static_cast<size_t>(s)] = rows;
    arrays.context_length[static_cast<size_t>(s)] = length;
    for (int32_t i = 0; i < length; ++i, ++rows) {
      const auto row = static_cast<size_t>(rows);
      arrays.token_ids[row] = draw(0, vocab - 1);
      arrays.positions[row] = i;
      arrays.row_sequence[row] = s;
      if (draw(0, 1) == 1) arrays.logits_rows[static_cast<size_t>(wanted++)] = rows;
    }
  }
  arrays.query_start[static_cast<size_t>(sequences)] = rows;
  for (const std::span<int32_t> table : arrays.block_tables) {
    for (int32_t& block : table) block = draw(0, layout.num_blocks - 1);
  }
  return batch.meta(0, {.tokens = rows, .sequences = sequences, .logits_rows = wanted});
}

}  // namespace

TEST_CASE("a launch that differs from its plan is found out") {
  const model::ModelSpec spec = testing::make_spec({});
  engine::EnginePlan plan = engine::plan_engine(spec, {}, kFootprint);
  memory::Arena arena = memory::Arena::counting();
  for (const memory::Region& region : plan.regions) arena.take(region.name, region.bytes);
  engine::check_regions(plan.regions, arena);
  plan.regions[2].bytes += 64;
  CHECK_THROWS_WITH(engine::check_regions(plan.regions, arena), Contains("region 2 ('token ids')"));
  plan.regions.resize(1);
  CHECK_THROWS_WITH(engine::check_regions(plan.regions, arena), Contains("region 1 ('kv blocks')"));
}

TEST_CASE("any launch is what its plan says, and no step leaves its memory") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const model::ModelSpec spec = testing::random_spec(random);
    EngineOptions options;
    options.dtype = round % 2 == 0 ? DType::bf16 : DType::f32;
    options.max_num_seqs = 1 + static_cast<int64_t>(random() % 9);
    options.max_num_batched_tokens = options.max_num_seqs + static_cast<int64_t>(random() % 100);
    options.block_size = 1 + static_cast<int64_t>(random() % 20);
    options.kv_cache_bytes = 1 << 20;
    options.auto_model_len = true;
    INFO("round " << round);
    const EngineLayout layout = engine::resolve_layout(spec, options, kFootprint);
    const engine::EnginePlan plan = engine::plan_layout(spec, layout, kFootprint);

    testing::TouchingBackend backend(kFootprint);
    engine::LaunchMemory memory(plan, backend);
    engine::Launch launch(spec, layout, backend, memory.device());
    memory.check(plan);
    REQUIRE(memory.device().peak() == plan.total_bytes);
    for (int step = 0; step < 3; ++step) {
      const backend::BatchMeta batch = random_batch(random, layout, launch.batch, spec.vocab_size);
      const memory::Scope scope(launch.scratch);
      const backend::View hidden = launch.model.forward(batch);
      REQUIRE(hidden.rows == static_cast<int64_t>(batch.logits_rows.size()));
      const int64_t slice = std::min(hidden.rows, layout.limits.logits_rows);
      launch.model.logits(hidden.slice_rows(0, slice));
    }
    CHECK(launch.scratch.used() == 0);
    CHECK(launch.scratch.peak() <= layout.scratch_bytes);
  }
}
