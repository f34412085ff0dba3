#include "backend/backend.h"

#include <array>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "backend/test_footprint.h"

using namespace plimsoll;
namespace ops = backend::ops;
using backend::View;
using backend::Weight;
using Catch::Contains;

namespace {

model::WeightSpec spec_of(std::vector<int64_t> shape) {
  model::WeightSpec spec;
  spec.name = "model.layers.0.mlp.down_proj.weight";
  spec.shape = std::move(shape);
  return spec;
}

/// A backend over 64 KiB of scratch, and views into memory of its own.
struct Bench {
  testing::TestFootprint footprint;
  testing::TouchingBackend ops{footprint};
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 16);
  memory::Arena scratch = memory::Arena::placing(memory.data(), memory.size());
  std::vector<float> numbers = std::vector<float>(1 << 14);
  Bench() { ops.use_scratch(scratch); }

  View view(int64_t rows, int64_t columns) {
    return {numbers.data(), DType::f32, rows, columns, columns};
  }
};

}  // namespace

TEST_CASE("slices of a view keep its stride") {
  std::array<float, 12> numbers{};
  const View view{numbers.data(), DType::f32, 3, 4, 4};
  const View part = view.slice_rows(1, 2).slice_columns(2, 2);
  CHECK(part.data == numbers.data() + 6);
  CHECK(part.rows == 2);
  CHECK(part.columns == 2);
  CHECK(part.stride == 4);
  CHECK_THROWS_WITH(view.slice_rows(2, 2), Contains("rows [2, 4) of [3, 4]"));
  CHECK_THROWS_WITH(view.slice_columns(4, 1), Contains("columns [4, 5) of [3, 4]"));
}

TEST_CASE("shape errors name both sides") {
  Bench bench;
  const model::WeightSpec down = spec_of({256, 384}), vector = spec_of({255});
  const Weight matrix{&down, DType::f32, nullptr}, bias{&vector, DType::f32, nullptr};
  const auto none = model::Activation::none;
  backend::Backend& backend = bench.ops;

  CHECK_THROWS_AS(backend.run(ops::Add{bench.view(2, 3), bench.view(2, 4)}), std::logic_error);
  CHECK_THROWS_WITH(
      backend.run(ops::Linear{bench.view(12, 256), bench.view(12, 256), matrix, {}, none}),
      Contains("linear: in [12, 256] does not match weight `model.layers.0.mlp.down_proj.weight` "
               "[256, 384]"));
  CHECK_THROWS_WITH(
      backend.run(ops::Linear{bench.view(12, 384), bench.view(12, 384), matrix, {}, none}),
      Contains("out [12, 384] does not match weight"));
  CHECK_THROWS_WITH(
      backend.run(ops::Linear{bench.view(11, 256), bench.view(12, 384), matrix, {}, none}),
      Contains("out [11, 256] does not match in [12, 384]"));
  CHECK_THROWS_WITH(
      backend.run(ops::Linear{bench.view(12, 256), bench.view(12, 384), matrix, bias, none}),
      Contains("out [12, 256] does not match weight") && Contains("[255]"));
  CHECK_THROWS_WITH(backend.run(ops::Norm{bench.view(2, 3), bench.view(2, 4), {}, {}, {}}),
                    Contains("out [2, 3] float32 does not match in [2, 4] float32"));
  CHECK_THROWS_WITH(backend.run(ops::GatedActivation{bench.view(2, 3), bench.view(2, 5), none}),
                    Contains("in [2, 5] is not [2, 6]"));
  CHECK_THROWS_WITH(backend.run(ops::LimitGates{bench.view(2, 5), {}}),
                    Contains("limit_gates: [2, 5] has no halves"));
  const std::array<int32_t, 2> ids{0, 1};
  const backend::BatchMeta batch{.token_ids = ids, .positions = ids, .logits_rows = ids};
  CHECK_THROWS_WITH(backend.run(ops::Embed{bench.view(3, 384), matrix, batch, 1}),
                    Contains("out [3, 384] does not match 2 ids"));
  CHECK_THROWS_WITH(backend.run(ops::EmbedPositions{bench.view(2, 385), matrix, batch, 0}),
                    Contains("out [2, 385] does not match weight"));
  CHECK_THROWS_WITH(backend.run(ops::GatherRows{bench.view(2, 3), bench.view(2, 4), batch}),
                    Contains("out [2, 3] does not match in [2, 4]"));
}

TEST_CASE("workspace is taken from scratch and given back") {
  Bench bench;
  const model::WeightSpec spec = spec_of({4, 8});
  const Weight matrix{&spec, DType::f32, nullptr};
  bench.ops.run(
      ops::Linear{bench.view(2, 4), bench.view(2, 8), matrix, {}, model::Activation::none});
  CHECK(bench.scratch.used() == 0);
  CHECK(bench.scratch.peak() == memory::Arena::kAlignment);
}

TEST_CASE("an op over no rows runs nothing") {
  Bench bench;
  View nothing = bench.view(0, 4);
  nothing.data = nullptr;
  bench.ops.run(ops::Add{nothing, nothing});
  bench.ops.run(ops::SoftCap{nothing, 30});
}
