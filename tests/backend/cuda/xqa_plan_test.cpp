// Which decode steps XQA computes, in how many parts, and with what memory.
#include "backend/cuda/xqa_plan.h"

#include <catch2/catch.hpp>

#include "backend/cuda/footprint.h"
#include "memory/arena.h"

using namespace plimsoll;
using namespace plimsoll::backend::cuda;

namespace {

constexpr FlashShape kLlama{
    .heads = 32, .kv_heads = 8, .head_dim = 128, .window = 0, .hopper = true};
constexpr FlashLimits kLimits{
    .tokens = 8192, .sequences = 256, .context = 8192, .multiprocessors = 132};

}  // namespace

TEST_CASE("XQA computes heads that see all of their past, up to 16 to a KV head") {
  CHECK(xqa_computes(kLlama));
  const auto with = [](auto change) {
    FlashShape shape = kLlama;
    change(shape);
    return xqa_computes(shape);
  };
  CHECK_FALSE(with([](FlashShape& shape) { shape.window = 4096; }));
  CHECK_FALSE(with([](FlashShape& shape) { shape.hopper = false; }));
  CHECK(with([](FlashShape& shape) { shape.kv_heads = 2; }));
  CHECK_FALSE(with([](FlashShape& shape) { shape.kv_heads = 1; }));
}

TEST_CASE("sequences are cut into as many parts as fill a card once") {
  const XqaLimits on_9 = xqa_limits(kLimits, kLlama, DType::f8_e4m3, 90);
  CHECK(on_9.blocks == 264);
  CHECK(xqa_limits(kLimits, kLlama, DType::f8_e4m3, 80).blocks == 132);
  CHECK(xqa_limits(kLimits, kLlama, DType::bf16, 90).blocks == 132);
  FlashShape wide = kLlama;
  wide.head_dim = 256;
  CHECK(xqa_limits(kLimits, wide, DType::f8_e4m3, 90).blocks == 132);
  CHECK(xqa_parts(4, on_9, kLlama) == 8);
  CHECK(xqa_parts(1, on_9, kLlama) == 32);  // of tiles: 33 find room
  CHECK(xqa_parts(33, on_9, kLlama) == 1);
  CHECK(xqa_parts(1024, on_9, kLlama) == 1);
  XqaLimits brief = on_9;
  brief.context = 257;
  CHECK(xqa_parts(1, brief, kLlama) == 2);
}

TEST_CASE("XQA's partial results and counters find room in what its formulas say") {
  for (const int64_t kv_heads : {1, 2, 8, 40, 200})
    for (const int64_t processors : {1, 20, 132}) {
      FlashShape shape = kLlama;
      shape.heads = shape.kv_heads = kv_heads;
      FlashLimits limits = kLimits;
      limits.multiprocessors = processors;
      const XqaLimits xqa = xqa_limits(limits, shape, DType::f8_e4m3, 90);
      for (int64_t sequences = 1; sequences <= limits.sequences; ++sequences) {
        const int64_t parts = xqa_parts(sequences, xqa, shape);
        const auto all = static_cast<size_t>(parts * sequences * kv_heads);
        REQUIRE(parts >= 1);
        if (parts > 1) REQUIRE(all * xqa_part_bytes(128) <= xqa_scratch_bytes(xqa, shape));
        REQUIRE(static_cast<size_t>(sequences * kv_heads) * 4 <= xqa_counter_bytes(xqa, shape));
      }
    }
  CHECK(xqa_part_bytes(128) == 256 + 16 * 128 * 2);
}

TEST_CASE("with results that do not depend on the batch there is no XQA, nor room for it") {
  FlashLimits limits = kLimits;
  limits.fixed_split = 2048;
  const XqaLimits none = xqa_limits(limits, kLlama, DType::f8_e4m3, 90);
  CHECK(none.blocks == 0);
  CHECK(xqa_scratch_bytes(none, kLlama) == 0);
  CHECK(xqa_counter_bytes(none, kLlama) == 0);
  limits = kLimits;
  limits.cuts = FlashLimits::Cuts::never;
  CHECK(xqa_limits(limits, kLlama, DType::f8_e4m3, 90).blocks == 0);
  limits = kLimits;
  limits.sequences = kMostXqaSequences + 1;
  CHECK(xqa_limits(limits, kLlama, DType::f8_e4m3, 90).blocks == 0);
}

TEST_CASE("a launch's workspace has the counters of its largest shape") {
  model::ModelSpec spec;
  spec.layers.resize(2);
  spec.layers[0].attention = {.heads = 32, .kv_heads = 8, .head_dim = 128, .scale = 0.1f};
  spec.layers[1].attention = {.heads = 32, .kv_heads = 16, .head_dim = 64, .scale = 0.1f};
  const backend::StepShape shape{
      .spec = &spec, .tokens = 8192, .sequences = 100, .table_stride = 64};
  backend::CardFigures card{.compute_capability = 90, .processors = 132};
  CHECK(backend::attention_counter_bytes(shape, card) == memory::Arena::aligned(100 * 16 * 4));
  const size_t with = backend::CudaFootprint(card).device_workspace_bytes(shape);
  spec.layers[0].attention.soft_cap = spec.layers[1].attention.soft_cap = 30;
  CHECK(backend::attention_counter_bytes(shape, card) == 0);
  CHECK(with - backend::CudaFootprint(card).device_workspace_bytes(shape) ==
        memory::Arena::aligned(100 * 16 * 4));
  spec.layers[0].attention.soft_cap = 0;
  card.deterministic = true;
  CHECK(backend::attention_counter_bytes(shape, card) == 0);
}
