// Which rules and settings of a configuration count for a module, and which are refused.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/json.h"
#include "batch/scratch.h"
#include "model/config.h"
#include "model/tiny_config.h"
#include "quantization/assign.h"
#include "quantization/config.h"

using namespace plimsoll;
using namespace plimsoll::quantization;
using Catch::Contains;

namespace {

/// Bits of the module model.layers.0.mlp.down_proj of a Llama whose config.json says this.
int64_t bits_by(const std::string& settings) {
  const test::Scratch scratch;
  scratch.write("config.json", R"({"quantization_config": )" + settings + "}");
  const Json config = model::read_config(scratch.path(""));
  const Quantization schemes(ConfigView(config.at("quantization_config"), "quantization_config"));
  return schemes
      .stored({.path = "layers.0.mlp",
               .leaf = "down_proj",
               .shards = {},
               .stored = "model.layers.0.mlp.down_proj"})
      .bits;
}

std::string gptq_rules(const std::string& rules) {
  return R"({"quant_method": "gptq", "bits": 4, "group_size": 64, "dynamic": {)" + rules + "}}";
}

std::string by_groups(const std::string& first, const std::string& second) {
  return R"({"quant_method": "compressed-tensors", "config_groups": {
    "group_0": {"targets": [")" +
         first + R"("], "weights": {"num_bits": 4, "strategy": "channel"}},
    "group_1": {"targets": [")" +
         second + R"("], "weights": {"num_bits": 8, "strategy": "channel"}}}})";
}

}  // namespace

TEST_CASE("of GPTQ's rules the first of the file that fits counts, whatever it is called") {
  CHECK(bits_by(gptq_rules(R"("+:.*mlp.*": {"bits": 2}, "+:.*down_proj": {"bits": 8})")) == 2);
  CHECK(bits_by(gptq_rules(R"("+:.*down_proj": {"bits": 8}, "+:.*mlp.*": {"bits": 2})")) == 8);
  CHECK(bits_by(gptq_rules(R"("-:.*mlp.*": {}, "+:.*down_proj": {"bits": 8})")) == 16);
  CHECK(bits_by(gptq_rules(R"(".*down_proj": {"bits": 8}, "+:.*mlp.*": {"bits": 2})")) == 8);
}

TEST_CASE("Quark's and AutoRound's rules count in the order of the file too") {
  const std::string weight = R"({"weight": {"dtype": ")";
  const auto quark = [&](const std::string& rules) {
    return R"({"quant_method": "quark", "global_quant_config": )" + weight +
           R"(fp8_e4m3", "qscheme": "per_tensor"}, "input_tensors": {"is_dynamic": true}},
         "layer_quant_config": {)" +
           rules + "}}";
  };
  const std::string four = weight + R"(fp4", "qscheme": "per_group", "group_size": 32}})";
  const std::string eight =
      weight + R"(fp8_e4m3", "qscheme": "per_channel"}, "input_tensors": {"is_dynamic": true}})";
  CHECK(bits_by(quark("\"*mlp*\": " + four + ", \"*down_proj\": " + eight)) == 4);
  CHECK(bits_by(quark("\"*down_proj\": " + eight + ", \"*mlp*\": " + four)) == 8);
  const auto auto_round = [](const std::string& rules) {
    return R"({"quant_method": "auto-round", "bits": 4, "extra_config": {)" + rules + "}}";
  };
  CHECK(bits_by(auto_round(R"(".*mlp.*": {"bits": 2}, ".*down_proj": {"bits": 8})")) == 2);
  CHECK(bits_by(auto_round(R"(".*down_proj": {"bits": 8}, ".*mlp.*": {"bits": 2})")) == 8);
}

TEST_CASE("of groups that name a module alike a whole name counts, then the first pattern") {
  CHECK(bits_by(by_groups("re:.*mlp.*", "model.layers.0.mlp.down_proj")) == 8);
  CHECK(bits_by(by_groups("model.layers.0.mlp.down_proj", "re:.*mlp.*")) == 4);
  CHECK(bits_by(by_groups("re:.*mlp.*", "re:.*down_proj")) == 8);
  CHECK(bits_by(by_groups("Linear", "re:.*down_proj")) == 8);
}

TEST_CASE("patterns begin where a module's name does") {
  CHECK(bits_by(by_groups("re:layers\\\\.0.*", "Linear")) == 8);
  CHECK(bits_by(by_groups("re:mlp.*", "Linear")) == 8);
  CHECK(bits_by(gptq_rules(R"("+:layers.*": {"bits": 8})")) == 4);
}

TEST_CASE("a pattern that would take for ever is refused, one that is only long is not") {
  const auto rule = [](const std::string& pattern) {
    return gptq_rules("\"+:" + pattern + R"(": {"bits": 8})");
  };
  CHECK_THROWS_WITH(bits_by(rule("(.+)+(.+)+(.+)+(.+)+(.+)+[!?]")),
                    Contains("takes too long") && Contains("(.+)+") && Contains("down_proj"));
  CHECK(bits_by(rule("(.*layers.*)(.*mlp.*).*up_proj.*")) == 4);
}

TEST_CASE("settings that no checkpoint has are refused by their key") {
  const auto [settings, named] = GENERATE(table<const char*, const char*>(
      {{R"({"quant_method": "fp8", "activation_scheme": "odd"})", "activation_scheme"},
       {R"({"quant_method": "gptq", "bits": 4, "dynamic": ["-:.*"]})", "dynamic"},
       {R"({"quant_method": "awq", "bits": 8})", "\"bits\" is 8"},
       {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"],
         "weights": {"num_bits": 8, "type": "complex"}}}})",
        "int, float"},
       {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"],
         "weights": {"num_bits": 8, "strategy": "none"}}}})",
        "\"strategy\" is \"none\""},
       {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"],
         "weights": {"num_bits": 8, "type": "float", "strategy": "block",
                     "block_structure": [0, 128]}, "input_activations": {"dynamic": true}}}})",
        "block_structure"}}));
  CHECK_THROWS_WITH(bits_by(settings), Contains(named));
}

TEST_CASE("codes that lie in the order of some kernel are refused, which a plan counts") {
  const auto assign = [](const char* settings, const FindStored& find) {
    const Json config =
        testing::tiny_config("LlamaForCausalLM", {{"quantization_config", Json::parse(settings)}});
    model::ModelSpec spec = model::make_model_spec(config);
    assign_packings(config, find, Activations::whole, spec);
  };
  const auto nothing = [](const std::string&) { return std::optional<StoredTensor>(); };
  for (const char* settings : {R"({"quant_method": "awq", "version": "GEMV", "group_size": 16})",
                               R"({"quant_method": "gptq", "checkpoint_format": "marlin"})"}) {
    CHECK_THROWS_WITH(assign(settings, nothing), Contains("q_proj") && Contains("the usual one"));
    CHECK_NOTHROW(assign(settings, nullptr));
  }
}

TEST_CASE("compressed-tensors' order \"dynamic\" is another word for \"group\"") {
  // compressed_tensors/quantization/quant_args.py: ActivationOrdering and validate_actorder.
  const auto ordered = [](const std::string& order) {
    const Json config = parse_json<Json>(
        R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "strategy": "group",
        "group_size": 32, "actorder": )" +
        order + "}}}}");
    const Quantization schemes(ConfigView(config, "quantization_config"));
    return schemes
        .stored({.path = "layers.0.mlp",
                 .leaf = "down_proj",
                 .shards = {},
                 .stored = "model.layers.0.mlp.down_proj"})
        .indexed_inputs;
  };
  for (const char* order : {R"("group")", R"("dynamic")", R"("Dynamic")", "true"}) {
    INFO(order);
    CHECK(ordered(order));
  }
  for (const char* order : {R"("weight")", R"("static")", "false", "null"}) {
    INFO(order);
    CHECK_FALSE(ordered(order));
  }
}
