// What one rank holds of a mixture's experts, and what beside its weights while they are loaded.
#include "vllm/shapes/rank_weights.h"

#include <catch2/catch.hpp>

#include "base/error.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

const RankWeights::Experts kExperts{
    .name = {"model.layers.0.mlp", "experts", {}}, .experts = 8, .hidden = 64, .intermediate = 512};

}  // namespace

TEST_CASE("experts of a layer are one module, the largest where they take most") {
  const Quantization none;
  RankWeights weights(2, 2, none);
  weights.linear(Part::mlp, {.name = {"model", "fc", {}}, .inputs = 64, .outputs = {64}});
  CHECK(weights.largest_matrix_bytes() == Amount{64 * 64 / 2 * 2});
  weights.experts(kExperts);
  CHECK(weights.part_bytes(Part::experts) == Amount{8 * 3 * 64 * 256 * 2});
  CHECK(weights.largest_matrix_bytes() == weights.part_bytes(Part::experts));
}

TEST_CASE("plain experts alone are widened to what their kernel takes") {
  const auto bytes = [](const Quantization& quantization) {
    RankWeights weights(4, 2, quantization);
    weights.set_plain_expert_multiple(256);
    weights.experts(kExperts);  // 128 of 512 a rank
    return weights.part_bytes(Part::experts);
  };
  CHECK(bytes(Quantization()) == Amount{8 * 3 * 64 * 256 * 2});
  constexpr int64_t kScales = 8 * 3 * 4;  // at most one a matrix
  CHECK(bytes(Quantization::asked("fp8")) <= Amount{8 * 3 * 64 * 128 + kScales});
}

TEST_CASE("experts are cut for the ranks of all copies, or refused") {
  const Quantization none;
  const auto bytes = [&](int64_t ranks, int64_t copies) {
    RankWeights weights(ranks, 2, none);
    weights.set_data_parallel(copies);
    weights.experts(kExperts);
    return weights.part_bytes(Part::experts);
  };
  CHECK(bytes(2, 2) == Amount{8 * 3 * 64 * 128 * 2});
  CHECK_THROWS_WITH(bytes(2, 3), Catch::StartsWith("--data-parallel-size 3:"));
  CHECK_THROWS_WITH(bytes(3, 1), Catch::StartsWith("--tensor-parallel-size 3:"));
}
