// --max-model-len auto: the longest context that the KV blocks hold.
#include "launch/context.h"

#include <catch2/catch.hpp>
#include <string>

#include "backend/cuda/footprint.h"
#include "launch/model_source.h"
#include "launch/resolve.h"
#include "launch/sequences.h"
#include "model/config.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using namespace plimsoll::launch;

namespace {

const backend::CudaFootprint kContextCard({});

/// The engine's options for a tiny Llama of 128 tokens, once its context is resolved.
template <class Change>
engine::EngineOptions resolved_with(Change change, int64_t asked = -1) {
  const Json config = testing::tiny_config("LlamaForCausalLM", {{"torch_dtype", "bfloat16"}});
  ModelSource source(model::make_model_spec(config), config, {}, Experts::all);
  Arguments arguments;
  arguments.args.max_model_len = asked;
  ResolvedLaunch launch = resolve(source, arguments, kContextCard);
  change(launch);
  resolve_context(arguments, kContextCard, launch);
  return launch.engine;
}

}  // namespace

TEST_CASE("a context that is asked to be as long as fits is as long as the blocks hold") {
  const auto with_blocks = [](int64_t blocks, int64_t usual = 0) {
    return resolved_with([&](ResolvedLaunch& launch) {
      launch.engine.num_kv_blocks = blocks;
      launch.spec.usual_length = usual;
    });
  };
  CHECK(with_blocks(4).max_model_len == 4 * 16);
  CHECK(!with_blocks(4).auto_model_len);
  CHECK(with_blocks(7).max_model_len == 7 * 16);
  for (const auto& whole : {with_blocks(8), with_blocks(100), with_blocks(4, 64)}) {
    CHECK(whole.auto_model_len);  // the model's own
    CHECK(whole.max_model_len == 0);
  }
}

TEST_CASE("a launch that holds no context at all is left to its refusal") {
  const engine::EngineOptions none =
      resolved_with([](ResolvedLaunch& launch) { launch.engine.memory_budget = 1; });
  CHECK(none.auto_model_len);
  CHECK(none.max_model_len == 0);
}

TEST_CASE("a launch that is refused for another reason than its memory is refused with it") {
  const auto resolved = [] {
    return resolved_with([](ResolvedLaunch& launch) { launch.engine.kv_dtype = DType::f32; });
  };
  CHECK_THROWS_WITH(resolved(), Catch::Contains("--kv-cache-dtype"));
}

TEST_CASE("a context that is stated stays as it is") {
  const engine::EngineOptions stated =
      resolved_with([](ResolvedLaunch& launch) { launch.engine.num_kv_blocks = 2; }, 100);
  CHECK(!stated.auto_model_len);
  CHECK(stated.max_model_len == 100);
}

TEST_CASE("images of a launch fit into the context that it resolves to") {
  const Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                                     "/samples/plans/configs/qwen2.5-vl-3b.json");
  ModelSource source(model::make_model_spec(config), config, {}, Experts::all);
  Arguments arguments;
  arguments.args.max_model_len = -1;
  arguments.lone_config = &config;
  ResolvedLaunch launch = resolve(source, arguments, kContextCard);
  launch.engine.num_kv_blocks = 64;
  REQUIRE(launch.engine.images->largest() > 64 * 16);
  resolve_context(arguments, kContextCard, launch);
  CHECK(launch.engine.max_model_len == 64 * 16);
  CHECK(launch.engine.images->largest() < 64 * 16);
}

TEST_CASE("as many sequences run at once as the blocks hold of the whole context") {
  const Json config = testing::tiny_config("LlamaForCausalLM", {{"torch_dtype", "bfloat16"}});
  ModelSource source(model::make_model_spec(config), config, {}, Experts::all);
  const Arguments arguments;
  ResolvedLaunch launch = resolve(source, arguments, kContextCard);
  const auto most = [&](int64_t blocks) {
    launch.engine.num_kv_blocks = blocks;
    return most_sequences(launch, kContextCard);
  };
  constexpr int64_t kEach = 128 / 16;  // blocks of 16 tokens
  CHECK(most(kEach) == 1);
  CHECK(most(2 * kEach - 1) == 1);
  CHECK(most(3 * kEach - 1) == 2);
  CHECK(most(3 * kEach) == 3);
  CHECK(most(4 * kEach) == 4);
}

TEST_CASE("every stage of a launch has as many blocks as the one with the least room") {
  const Json config = testing::tiny_config("LlamaForCausalLM",
                                           {{"torch_dtype", "bfloat16"}, {"num_hidden_layers", 4}});
  ModelSource source(model::make_model_spec(config), config, {}, Experts::all);
  Arguments arguments;
  arguments.args.pipeline_parallel = 2;
  ResolvedLaunch launch = resolve(source, arguments, kContextCard);
  REQUIRE(launch.stages.size() == 2);
  const auto blocks_of = [&](uint64_t budget) {
    launch.engine.memory_budget = budget;
    std::vector<int64_t> blocks;
    for (const engine::EngineLayout& layout :
         engine::resolve_stages(launch.spec, launch.stage_views(), launch.engine, kContextCard))
      blocks.push_back(layout.num_blocks);
    return blocks;
  };
  // The stages differ by the head and what the last one samples with.
  const auto alone = [&](size_t stage, uint64_t budget) {
    engine::EngineOptions options = launch.engine;
    options.memory_budget = budget;
    options.stage = engine::StageOf{&launch.spec, launch.stages[stage].first_layer, 2};
    return engine::resolve_layout(launch.stages[stage].spec, options, kContextCard).num_blocks;
  };
  constexpr uint64_t kBudget = uint64_t{64} << 20;
  const int64_t first = alone(0, kBudget), last = alone(1, kBudget);
  REQUIRE(first != last);
  CHECK(blocks_of(kBudget) == std::vector<int64_t>(2, std::min(first, last)));
}
