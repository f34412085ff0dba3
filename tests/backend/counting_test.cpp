#include "backend/counting.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "backend/test_footprint.h"

using namespace plimsoll;
namespace ops = backend::ops;
using backend::View;

TEST_CASE("the counting backend runs nothing, checks shapes and counts workspace") {
  const testing::TestFootprint footprint;
  backend::CountingBackend counting(footprint);
  memory::Arena scratch = memory::Arena::counting();
  counting.use_scratch(scratch);
  model::WeightSpec spec;
  spec.name = "w";
  spec.shape = {4, 1000};
  const backend::Weight weight{&spec, DType::bf16, nullptr};
  const View in{nullptr, DType::bf16, 3, 1000, 1000}, out{nullptr, DType::bf16, 3, 4, 4};
  counting.run(ops::Linear{out, in, weight, {}, model::Activation::none});
  CHECK(scratch.peak() == 3072);
  CHECK_THROWS_AS(counting.run(ops::Linear{in, in, weight, {}, model::Activation::none}),
                  std::logic_error);
}

TEST_CASE("the counting backend refuses scratch that does not count") {
  const testing::TestFootprint footprint;
  backend::CountingBackend counting(footprint);
  memory::Arena scratch = memory::Arena::placing(nullptr, 0);
  counting.use_scratch(scratch);
  const View view{nullptr, DType::f32, 1, 4, 4};
  CHECK_THROWS_WITH(counting.run(ops::SoftCap{view, 1}),
                    Catch::Contains("soft_cap: the counting backend"));
}
