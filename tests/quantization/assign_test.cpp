// What a configuration says of a model's weights, put into the weight table.
#include "quantization/assign.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "model/config.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using namespace plimsoll::quantization;
using Catch::Contains;
using model::InputRounding;

namespace {

/// A Llama in packed integers of 4 bits, by compressed-tensors' configuration alone; how the inputs
/// of its layers are rounded.
InputRounding rounding(const Json& inputs, Activations activations = Activations::rounded) {
  Json group = {
      {"targets", {"Linear"}},
      {"weights", {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 16}}}};
  if (!inputs.is_null()) group["input_activations"] = inputs;
  const Json config =
      testing::tiny_config("LlamaForCausalLM", {{"quantization_config",
                                                 {{"quant_method", "compressed-tensors"},
                                                  {"format", "pack-quantized"},
                                                  {"config_groups", {{"group_0", group}}}}}});
  model::ModelSpec spec = model::make_model_spec(config);
  assign_packings(config, nullptr, activations, spec);
  const model::WeightSpec& weight = spec.weight(spec.layers[0].attention.out.weight);
  REQUIRE(weight.parts[0].packing);
  CHECK(weight.parts[0].packing->bits == 4);
  return weight.parts[0].packing->inputs;
}

Json by_token(const char* type, const Json& changes = Json::object()) {
  Json inputs = {{"num_bits", 8}, {"type", type}, {"strategy", "token"}, {"dynamic", true}};
  inputs.update(changes);
  return inputs;
}

}  // namespace

TEST_CASE("packed integers have their inputs rounded where the format asks for it") {
  CHECK(rounding(nullptr) == InputRounding::none);
  CHECK(rounding(by_token("int")) == InputRounding::int8_token);
  CHECK(rounding(by_token("float")) == InputRounding::fp8_token);
  CHECK(rounding(by_token("int", {{"symmetric", false}})) == InputRounding::int8_zeros);
  CHECK(rounding(by_token("int"), Activations::whole) == InputRounding::none);
}

TEST_CASE("inputs that are rounded as run does not are refused, unless they stay whole") {
  const auto [changes, named] = GENERATE(table<const char*, const char*>(
      {{R"({"symmetric": false, "dynamic": false})", "stored zero points"},
       {R"({"num_bits": 4})", "bits that are not 8"},
       {R"({"dynamic": false})", "each token's"},
       {R"({"dynamic": "local"})", "each token's"},
       {R"({"strategy": "group", "group_size": 32})", "each token's"}}));
  const Json inputs = by_token("int", Json::parse(changes));
  CHECK_THROWS_WITH(rounding(inputs), Contains("q_proj") && Contains(named) &&
                                          Contains("--quantized-activations off"));
  CHECK(rounding(inputs, Activations::whole) == InputRounding::none);
}
