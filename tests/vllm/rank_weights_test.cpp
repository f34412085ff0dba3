// What one rank holds of a mixture's experts, and what beside its weights while they are loaded.
#include "vllm/shapes/rank_weights.h"

#include <catch2/catch.hpp>
#include <string>

#include "base/error.h"
#include "vllm/shapes/weight_scheme.h"

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

TEST_CASE("key-value heads are cut, or repeated where ranks are a multiple of them") {
  const Quantization none;
  const auto heads = [&](int64_t ranks, int64_t total) {
    return RankWeights(ranks, 2, none).kv_heads(total);
  };
  CHECK(heads(4, 8) == 2);
  CHECK(heads(4, 4) == 1);
  CHECK(heads(4, 2) == 1);
  CHECK(heads(4, 1) == 1);
  CHECK_THROWS_WITH(heads(4, 3),
                    Catch::Contains("--tensor-parallel-size 4: it is not a multiple of the number "
                                    "of key-value heads (3)"));
  CHECK_THROWS_WITH(heads(4, 6), Catch::Contains("the number of key-value heads (6)"));
}

TEST_CASE("a slice of experts that cuts a block or a group is refused, and says where") {
  const auto refusal = [](const WeightScheme& scheme, int64_t slice, int64_t hidden,
                          bool split = true) -> std::string {
    ExpertShape shape;
    shape.experts = 2;
    shape.hidden = hidden;
    shape.intermediate = slice;
    shape.split = split;
    try {
      expert_bytes(scheme, shape, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const WeightScheme blocks = quantization::block_fp8(64, 128);  // outputs, inputs
  CHECK(refusal(blocks, 256, 256).empty());
  CHECK_THAT(refusal(blocks, 96, 256),
             Catch::StartsWith("The output_size of gate's and up's weight = 96 is not divisible by "
                               "weight quantization block_n = 64."));
  CHECK_THAT(refusal(blocks, 192, 256),
             Catch::StartsWith("The input_size of down's weight = 192 is not divisible by weight "
                               "quantization block_k = 128."));
  CHECK(refusal(blocks, 192, 256, false).empty());  // the last block of the whole is short
  const WeightScheme groups = {.format = WeightFormat::packed, .bits = 4, .group = 128};
  CHECK(refusal(groups, 256, 384).empty());
  for (const auto& [slice, hidden] : {std::pair(192, 384), std::pair(256, 320)}) {
    CHECK_THAT(refusal(groups, slice, hidden),
               Catch::Contains("partition (" + std::to_string(slice) + ") and the hidden size (" +
                               std::to_string(hidden) + ") to be divisible by group_size (128)"));
  }
}
