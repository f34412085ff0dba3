// Configs that transformers 5.24 saved again (tests/against/respelled), which readers took
// otherwise than the published ones.
#include <catch2/catch.hpp>
#include <string>

#include "base/json.h"
#include "model/config.h"

using namespace plimsoll;

namespace {

Json data_config(const std::string& path) {
  return read_json_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/" + path);
}

}  // namespace

TEST_CASE("images turn positions by sections in configs that transformers saved again") {
  for (const std::string name : {"qwen2_vl", "qwen2_5_vl"}) {
    INFO(name);
    const auto published =
        model::make_model_spec(data_config("golden/multimodal_run/" + name + "/config.json"));
    const auto again = model::make_model_spec(data_config("respelled/" + name + ".json"));
    REQUIRE(again.ropes.size() == published.ropes.size());
    CHECK_FALSE(again.ropes[0].sections.empty());
    CHECK(again.ropes[0].sections == published.ropes[0].sections);
    CHECK(again.ropes[0].table.inverse_frequencies == published.ropes[0].table.inverse_frequencies);
  }
}

TEST_CASE("MiMo's windows in a config that transformers saved again") {
  const Json config = data_config("respelled/mimo_v2_flash.json");
  REQUIRE(config.at("sliding_window") == 257);
  REQUIRE(config.at("sliding_window_size") == 256);
  CHECK(model::make_model_spec(config).layers[1].attention.window == 257);
  const auto vllm = model::describe_language_model("MiMoV2FlashForCausalLM", config);
  CHECK(vllm.value().layers[1].attention.window == 256);
}
