// Quantization of a model's weights by a configuration, put into the weight table.
#include "quantization/assign.h"

#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "base/error.h"
#include "model/config.h"
#include "model/tiny_config.h"
#include "quantization/config.h"

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
      {{R"({"symmetric": false, "dynamic": false})", "each token's"},
       {R"({"num_bits": 4})", "bits that are not 8"},
       {R"({"dynamic": false})", "each token's"},
       {R"({"dynamic": "local"})", "each token's"},
       {R"({"strategy": "group", "group_size": 32})", "each token's"}}));
  const Json inputs = by_token("int", Json::parse(changes));
  CHECK_THROWS_WITH(rounding(inputs), Contains("q_proj") && Contains(named) &&
                                          Contains("--quantized-activations off"));
  CHECK(rounding(inputs, Activations::whole) == InputRounding::none);
}

namespace {

/// The first output projection of a Llama by a configuration alone.
model::Packing packing(const Json& settings, Activations activations = Activations::rounded) {
  const Json config = testing::tiny_config("LlamaForCausalLM", {{"quantization_config", settings},
                                                                {"hidden_size", 64},
                                                                {"intermediate_size", 64},
                                                                {"head_dim", 16}});
  model::ModelSpec spec = model::make_model_spec(config);
  assign_packings(config, nullptr, activations, spec);
  const auto& packed = spec.weight(spec.layers[0].attention.out.weight).parts[0].packing;
  REQUIRE(packed);
  return *packed;
}

/// compressed-tensors' weights and inputs.
Json compressed(const Json& weights, const Json& inputs) {
  return {{"quant_method", "compressed-tensors"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", inputs}}}}}};
}

Json eight_bits(const char* type, const char* strategy, const Json& changes = Json::object()) {
  Json numbers = {{"num_bits", 8}, {"type", type}, {"strategy", strategy}};
  numbers.update(changes);
  return numbers;
}

Json mx(int bits) {
  return {{"num_bits", bits},
          {"type", "float"},
          {"strategy", "group"},
          {"group_size", 32},
          {"dynamic", true}};
}

Json quark(const char* weights, const char* inputs) {
  return {{"quant_method", "quark"},
          {"global_quant_config",
           {{"weight", Json::parse(weights)}, {"input_tensors", Json::parse(inputs)}}}};
}

}  // namespace

TEST_CASE("packed integers have an index of their inputs where groups are in activation order") {
  const auto is_ordered = [](const Json& order) {
    Json weights = {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 16}};
    if (!order.is_discarded()) weights["actorder"] = order;
    return packing(compressed(weights, nullptr)).ordered;
  };
  CHECK(is_ordered("group"));
  CHECK(is_ordered(true));  // as older checkpoints say it
  // Quantized in another order, and stored in the order of the inputs.
  CHECK_FALSE(is_ordered("weight"));
  CHECK_FALSE(is_ordered("static"));
  CHECK_FALSE(is_ordered(false));
  CHECK_FALSE(is_ordered(nullptr));
  CHECK_FALSE(is_ordered(Json(Json::value_t::discarded)));
}

TEST_CASE("inputs of 8-bit weights are rounded as each tool's configuration says") {
  const Json dynamic = {{"dynamic", true}};
  const Json zeros = {{"dynamic", false}, {"symmetric", false}};
  const auto [name, settings, expected] = GENERATE_COPY(table<const char*, Json, InputRounding>({
      {"int8 by token", compressed(eight_bits("int", "channel"), by_token("int")),
       InputRounding::int8_token},
      {"int8 by a stored zero point",
       compressed(eight_bits("int", "channel"), eight_bits("int", "tensor", zeros)),
       InputRounding::int8_static_zeros},
      {"fp8 by a stored scale",
       compressed(eight_bits("float", "tensor"), eight_bits("float", "tensor")),
       InputRounding::fp8_static},
      {"Quark's stored scale",
       quark(R"({"dtype": "fp8_e4m3", "qscheme": "per_tensor"})",
             R"({"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": false})"),
       InputRounding::fp8_static},
      {"Quark by token",
       quark(R"({"dtype": "fp8_e4m3", "qscheme": "per_channel"})",
             R"({"dtype": "fp8_e4m3", "qscheme": "per_channel", "is_dynamic": true})"),
       InputRounding::fp8_token},
      {"Quark's int8",
       quark(R"({"dtype": "int8", "qscheme": "per_channel", "symmetric": true})",
             R"({"dtype": "int8", "qscheme": "per_tensor", "symmetric": true})"),
       InputRounding::int8_static},
      {"Quark's int8 by a stored zero point",
       quark(R"({"dtype": "int8", "qscheme": "per_tensor", "symmetric": true})",
             R"({"dtype": "int8", "qscheme": "per_tensor", "symmetric": false})"),
       InputRounding::int8_static_zeros},
      {"fbgemm",
       {{"quant_method", "fbgemm_fp8"}, {"activation_scale_ub", 300.0}},
       InputRounding::fp8_bounded},
      {"MXFP4 on both sides", compressed(mx(4), mx(4)), InputRounding::mxfp4_group},
      {"MXFP4 beside MXFP8", compressed(mx(4), mx(8)), InputRounding::mxfp8_group},
      {"MXFP8", compressed(mx(8), mx(8)), InputRounding::mxfp8_group},
      {"Quark's MXFP4",
       quark(R"({"dtype": "fp4", "qscheme": "per_group", "group_size": 32})",
             R"({"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "is_dynamic": true,
                 "scale_format": "e8m0"})"),
       InputRounding::mxfp4_group},
      {"ModelOpt's MXFP8",
       {{"quant_method", "modelopt"}, {"quant_algo", "MXFP8"}},
       InputRounding::mxfp8_group},
  }));
  INFO(name);
  CHECK(packing(settings).inputs == expected);
  CHECK(packing(settings).most_input == (expected == InputRounding::fp8_bounded ? 300 : 0));
  CHECK(packing(settings, Activations::whole).inputs == InputRounding::none);
}

TEST_CASE("what inputs of 8-bit and 4-bit floats are not rounded to is refused") {
  const Json blocks = eight_bits("float", "block", {{"block_structure", {128, 32}}});
  const Json fp4 = {{"num_bits", 4}, {"type", "float"}, {"group_size", 16}};
  const Json mxfp4 = {{"num_bits", 4}, {"type", "float"}, {"group_size", 32}};
  const auto [settings, named] = GENERATE_COPY(table<Json, const char*>({
      {compressed(eight_bits("int", "channel"), by_token("float")), "another kind"},
      {compressed(eight_bits("float", "channel"), by_token("float", {{"num_bits", 4}})),
       "bits that are not 8"},
      {compressed(eight_bits("float", "channel"), eight_bits("float", "group")), "of groups"},
      {compressed(blocks, eight_bits("float", "group", {{"dynamic", true}})), "not 128"},
      {compressed(fp4, by_token("float")), "other numbers"},
      {compressed(mxfp4, mxfp4), "MXFP4"},
      {quark(R"({"dtype": "fp4", "qscheme": "per_group", "group_size": 32})", "{}"), "MXFP4"},
  }));
  CHECK_THROWS_WITH(packing(settings), Contains("q_proj") && Contains(named) &&
                                           Contains("--quantized-activations off"));
  CHECK(packing(settings, Activations::whole).inputs == InputRounding::none);
}

TEST_CASE("Quark's int8 that vLLM has no scheme for is refused") {
  const char* const weights = R"({"dtype": "int8", "qscheme": "per_channel", "symmetric": true})";
  const char* const stored = R"({"dtype": "int8", "qscheme": "per_tensor", "symmetric": true})";
  const auto settings = GENERATE_COPY(
      quark(R"({"dtype": "int8", "qscheme": "per_channel", "symmetric": false})", stored),
      quark(R"({"dtype": "int8", "qscheme": "per_group", "symmetric": true})", stored),
      quark(weights, R"({"dtype": "int8", "qscheme": "per_channel", "is_dynamic": true})"),
      quark(weights, R"({"dtype": "fp8_e4m3", "qscheme": "per_tensor"})"), quark(weights, "null"));
  CHECK_THROWS_WITH(packing(settings), Contains("Quark's weights of \"int8\""));
}

TEST_CASE("an upper bound of inputs that is none is refused") {
  const Json settings = {{"quant_method", "fbgemm_fp8"}, {"activation_scale_ub", 0}};
  CHECK_THROWS_WITH(packing(settings), Contains("activation_scale_ub"));
}

TEST_CASE("patterns may speak of a module by all that it is called in the checkpoint") {
  const auto format_of = [](const char* ignored, const char* module) {
    Json settings = compressed(eight_bits("float", "channel"), by_token("float"));
    settings["ignore"] = {ignored};
    const Quantization schemes(ConfigView(settings, "quantization_config"));
    return schemes
        .stored({.path = "layers.3.mlp", .leaf = "down_proj", .shards = {}, .stored = module})
        .format;
  };
  constexpr const char* kModule = "model.language_model.layers.3.mlp.down_proj";
  CHECK(format_of("re:model\\.language_model\\.layers\\.3\\..*", kModule) == WeightFormat::plain);
  CHECK(format_of("re:.*language_model.*down_proj$", kModule) == WeightFormat::plain);
  CHECK(format_of("re:model\\.layers\\.3\\..*", kModule) == WeightFormat::plain);
  CHECK(format_of("re:language_model\\.layers\\.3\\..*", kModule) == WeightFormat::fp8);
  CHECK(format_of("model.language_model.layers.3.mlp.down_proj", kModule) == WeightFormat::plain);
}

TEST_CASE("Quark's NVFP4 comes in two stages, its int4 in words of AWQ's order") {
  const char* const four = R"({"dtype": "fp4", "qscheme": "per_group", "group_size": 16,)";
  const auto stages = [&](const char* dynamic) {
    return fmt::format(
        R"([{} "is_dynamic": {}}}, {{"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}])", four,
        dynamic);
  };
  const Json nvfp4 = quark(stages("false").c_str(), stages("true").c_str());
  CHECK(packing(nvfp4).inputs == InputRounding::nvfp4_group);
  CHECK_THROWS_WITH(packing(quark(stages("false").c_str(), stages("false").c_str())),
                    Contains("\"fp4 in stages\""));
  const char* const int4 =
      R"({"dtype": "int4", "qscheme": "per_group", "group_size": 32, "symmetric": true})";
  CHECK(packing(quark(int4, "null")).inputs == InputRounding::none);
  CHECK_THROWS_WITH(packing(quark(int4, R"({"dtype": "fp8_e4m3", "qscheme": "per_tensor"})")),
                    Contains("Quark's weights of \"int4\""));
  Json in_order = quark(int4, "null");
  in_order["export"] = {{"pack_method", "order"}};
  CHECK_THROWS_WITH(packing(in_order), Contains("pack_method \"reorder\""));
}

TEST_CASE("ModelOpt's NVFP4 leaves inputs whole where all of its groups do") {
  const auto scheme = [](const char* inputs) {
    const Json settings = {
        {"quant_method", "modelopt"},
        {"quant_algo", "NVFP4"},
        {"config_groups", {{"group_0", {{"input_activations", Json::parse(inputs)}}}}}};
    return Quantization(ConfigView(settings, "quantization_config")).usual();
  };
  CHECK(scheme("null").whole_inputs);
  CHECK(scheme("null").unused_input);
  CHECK_FALSE(scheme(R"({"num_bits": 4})").whole_inputs);
}

TEST_CASE("compressed-tensors' MXFP4 is that of all layers, but where experts alone are meant") {
  const Json settings = {
      {"quant_method", "compressed-tensors"},
      {"format", "mxfp4-pack-quantized"},
      {"config_groups",
       {{"group_0",
         {{"targets", {"Linear"}},
          {"weights",
           {{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}, {"group_size", 32}}}}}}}};
  const ModuleName layer{.path = "layers.0.mlp", .leaf = "down_proj", .shards = {}, .stored = {}};
  const ModuleName experts{.path = "layers.0.mlp", .leaf = "experts", .shards = {}, .stored = {}};
  Quantization schemes(ConfigView(settings, "quantization_config"));
  CHECK(schemes.linear(layer).format == WeightFormat::mxfp4);
  CHECK(schemes.has_attention_scales(false));
  schemes.leave_all_but_experts();
  CHECK(schemes.linear(layer).plain());
  CHECK(schemes.experts(experts).format == WeightFormat::mxfp4);
  CHECK_FALSE(schemes.has_attention_scales(false));
}

TEST_CASE("an expert that is left whole, or one of its matrices, is refused by name") {
  const Json config = testing::tiny_config("MixtralForCausalLM",
                                           {{"model_type", "mixtral"},
                                            {"num_local_experts", 2},
                                            {"num_experts_per_tok", 1},
                                            {"quantization_config", {{"quant_method", "fp8"}}}});
  const auto assign = [&](const char* whole) {
    model::ModelSpec spec = model::make_model_spec(config);
    assign_packings(
        config,
        [&](const std::string& name) -> std::optional<StoredTensor> {
          if (!name.ends_with(".weight")) return std::nullopt;
          const bool plain = name.find(whole) != std::string::npos;
          return StoredTensor{.name = name,
                              .dtype = plain ? DType::bf16 : DType::f8_e4m3,
                              .shape = {1, 1},
                              .data = nullptr,
                              .guarded = {}};
        },
        Activations::whole, spec);
  };
  CHECK_THROWS_WITH(assign("experts.1.w2."), Contains("experts.1.w2.weight") &&
                                                 Contains("otherwise than the first expert's") &&
                                                 Contains("use the unquantized model"));
  CHECK_THROWS_WITH(assign(".w3."), Contains("w3.weight") && Contains("one is not"));
  CHECK_NOTHROW(assign(".w2."));  // of all experts
}

TEST_CASE("a table of tokens that is quantized is refused by its tensor") {
  const Json config = testing::tiny_config(
      "LlamaForCausalLM", {{"quantization_config", {{"quant_method", "compressed-tensors"}}}});
  model::ModelSpec spec = model::make_model_spec(config);
  const auto find = [](const std::string& name) {
    std::optional<StoredTensor> found;
    if (name == "model.embed_tokens.weight_packed") found.emplace().name = name;
    return found;
  };
  CHECK_THROWS_WITH(assign_packings(config, find, Activations::whole, spec),
                    Contains("model.embed_tokens.weight_packed") && Contains("leaves it whole"));
}

TEST_CASE("the scales of a layer's cache have each of the names that checkpoints give them") {
  const auto scales = [](const std::map<std::string, float>& stored) {
    const Json config = testing::tiny_config(
        "LlamaForCausalLM",
        {{"num_hidden_layers", 2}, {"quantization_config", {{"quant_method", "fp8"}}}});
    model::ModelSpec spec = model::make_model_spec(config);
    const auto find = [&](const std::string& name) -> std::optional<StoredTensor> {
      const auto at = stored.find(name);
      if (at == stored.end()) return std::nullopt;
      return StoredTensor{.name = name,
                          .dtype = DType::f32,
                          .shape = {1},
                          .data = reinterpret_cast<const std::byte*>(&at->second),
                          .guarded = [](const std::function<void()>& read) { read(); }};
    };
    assign_packings(config, find, Activations::whole, spec);
    CHECK(spec.layers[1].attention.key_scale == 1);
    return std::pair(spec.layers[0].attention.key_scale, spec.layers[0].attention.value_scale);
  };
  const std::string layer = "model.layers.0.self_attn";
  for (const auto& [key, value] : {std::pair{".attn.k_scale", ".attn.v_scale"},
                                   {".k_scale", ".v_scale"},
                                   {".k_proj.k_scale", ".v_proj.v_scale"},
                                   {".qkv_proj.k_scale", ".qkv_proj.v_scale"},
                                   {".k_proj.output_scale", ".v_proj.output_scale"}}) {
    INFO(key);
    CHECK(scales({{layer + key, 0.5F}, {layer + value, 0.25F}}) == std::pair(0.5F, 0.25F));
    CHECK(scales({{layer + value, 0.25F}}) == std::pair(1.0F, 0.25F));
  }
  CHECK(scales({{layer + ".kv_scale", 0.5F}}) == std::pair(0.5F, 0.5F));   // one for both
  CHECK(scales({{layer + ".kv_scale", -1.0F}}) == std::pair(0.0F, 0.0F));  // no scale
  CHECK(scales({}) == std::pair(1.0F, 1.0F));
}
