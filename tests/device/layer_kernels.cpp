// How many kernels a layer of a decode step takes: each costs a device about a microsecond.
#include <catch2/catch.hpp>

#include "backend/device.h"
#include "device/devices.h"
#include "engine/layout.h"
#include "engine/mixed_requests.h"
#include "engine/specs.h"
#include "engine/tiny_model.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/emulator.h"
#endif

using namespace plimsoll;
using namespace plimsoll::engine;

#ifdef PLIMSOLL_EMULATION
namespace {

/// Kernels that a step of `rows` sequences with a row each starts.
uint64_t kernels_of(testing::Shape shape, size_t layers, int32_t rows) {
  shape.windows.assign(layers, 0);
  const model::ModelSpec spec = testing::make_spec(shape);
  const auto device = backend::make_device_backend({.index = 0, .threads = 1});
  EngineOptions options;
  options.max_num_seqs = 16;
  options.num_kv_blocks = 64;
  const EngineLayout layout = resolve_layout(spec, options, device->footprint());
  const EnginePlan plan = plan_layout(spec, layout, device->footprint());
  LaunchMemory memory(plan, *device);
  Launch launch(spec, layout, *device, memory.device(), memory.host());
  device->start_launch(launch.backend_parts);
  launch.model.fill_random(1);
  device->finish_loading();
  BatchSlab& slab = launch.batch.slab();
  for (int32_t row = 0; row < rows; ++row) {
    const auto at = static_cast<size_t>(row);
    slab.token_ids[at] = slab.positions[at] = 0;
    slab.row_sequence[at] = slab.logits_rows[at] = row;
    slab.query_start[at + 1] = row + 1;
    slab.context_length[at] = 1;
  }
  const backend::BatchMeta batch =
      launch.batch.meta(0, {.tokens = rows, .sequences = rows, .logits_rows = rows});
  const memory::Scope scope(launch.scratch);
  device->start_step(batch);
  const uint64_t before = emulation::launches;
  launch.model.forward(batch);
  return emulation::launches - before;
}

/// Kernels that a decode step of one row starts on each of two ranks.
uint64_t kernels_of_rank(int64_t layers) {
  Json config = model::read_config(testing::TinyModel::recipe("llama"));
  config["num_hidden_layers"] = layers;
  // Small ones, whose products are soon tried.
  for (const char* size : {"hidden_size", "intermediate_size", "vocab_size"}) config[size] = 64;
  config["head_dim"] = 16;
  const model::ModelSpec spec = model::make_model_spec(config);
  const testing::Devices devices(2);
  const checkpoint::WeightSource* none = nullptr;
  const auto models = shard::stage_models(spec, {.tensor_parallel = 2, .dtype = DType::bf16});
  std::vector<std::unique_ptr<backend::Backend>> backends;
  std::vector<Rank> ranks;
  for (size_t rank = 0; rank < 2; ++rank) {
    backends.push_back(devices.backends()(rank, 2));
    ranks.push_back({&models.front().spec, 0, backends.back().get(), none});
  }
  EngineOptions options = testing::options_with(2, 4, 16, DType::bf16);
  options.capture_sizes = std::vector<int64_t>{};
  options.tensor_ranks = 2;
  Engine engine(spec, ranks, nullptr, options);
  engine.add(testing::greedy(1, {5, 6, 7}, 8));
  std::vector<RequestOutput> finished;
  std::vector<uint64_t> started;
  while (!engine.idle()) {
    const uint64_t before = emulation::launches;
    engine.step(finished);
    started.push_back(emulation::launches - before);
  }
  REQUIRE(started.size() > 4);
  CHECK(started[2] == started[3]);  // decode steps
  return started[3] / 2;
}

uint64_t kernels_of_layer(const testing::Shape& shape, int32_t rows) {
  return kernels_of(shape, 4, rows) - kernels_of(shape, 3, rows);
}

}  // namespace

TEST_CASE("a Llama's layer of a decode step is seven kernels, ten of more rows than four") {
  testing::Shape shape;
  // The seven kernels: the product of q, k and v, RoPE with the cache, attention in two, and the
  // three behind it.
  for (const int32_t rows : {1, 3, 4}) CHECK(kernels_of_layer(shape, rows) == 7);
  CHECK(kernels_of_layer(shape, 5) == 10);
  shape.branch_factor = 0.5f;  // what fused products have no part for
  CHECK(kernels_of_layer(shape, 1) > 10);
}

TEST_CASE("a Llama's layer of a decode step on two ranks is ten kernels, their sums among them") {
  CHECK(kernels_of_rank(4) - kernels_of_rank(3) == 10);
}
#else
TEST_CASE("kernels are counted in emulation") {
  testing::skip("a device does not tell");
}
#endif
