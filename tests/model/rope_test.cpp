// Rotation speeds of every RoPE kind, against transformers' formulas in float64; head of 8, base
// 10000, so that the plain speeds are 1, 0.1, 0.01, 0.001.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using plimsoll::testing::tiny_config;

namespace {

model::ModelSpec with_rope(const char* changes, const char* architecture = "LlamaForCausalLM") {
  Json config = tiny_config(architecture, {{"head_dim", 8}, {"max_position_embeddings", 4096}});
  config.merge_patch(Json::parse(changes));
  return model::make_model_spec(config);
}

void check_speeds(const model::RopeTable& table, const std::vector<double>& expected,
                  double scale = 1) {
  REQUIRE(table.inverse_frequencies.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("speed " << i);
    // float32: a few roundings
    CHECK(table.inverse_frequencies[i] == Approx(expected[i]).epsilon(4e-7));
  }
  CHECK(table.scale == Approx(scale).epsilon(1e-7));
}

}  // namespace

TEST_CASE("rotation speeds and contexts of every kind") {
  struct Row {
    const char* changes;
    std::vector<double> speeds;
    double scale;
    int64_t context;
  };
  const Row row = GENERATE(values<Row>({
      {"{}", {1, 0.1, 0.01, 0.001}, 1, 4096},
      {R"({"rope_theta": 1e8})", {1, 0.01, 0.0001, 0.000001}, 1, 4096},
      {R"({"rope_scaling": {"type": "default"}})", {1, 0.1, 0.01, 0.001}, 1, 4096},
      {R"({"rope_scaling": {"type": "linear", "factor": 4}})",
       {0.25, 0.025, 0.0025, 0.00025},
       1,
       16384},
      {R"({"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000}})",
       {0.25, 0.025, 0.0025, 0.00025},
       1,
       16384},
      {R"({"rope_parameters": {"rope_theta": 1e8}, "rope_theta": 3})",
       {1, 0.01, 0.0001, 0.000001},
       1,
       4096},
      {R"({"rope_scaling": {"type": "dynamic", "factor": 4}})", {1, 0.1, 0.01, 0.001}, 1, 16384},
      {R"({"rope_scaling": {"type": "dynamic", "factor": 4, "max_trained_positions": 1024}})",
       {1, 0.042529037028299015, 0.001808718990554429, 7.692307692307694e-05},
       1,
       16384},
      {R"({"rope_scaling": {"type": "dynamic", "alpha": 1000}})",
       {1, 0.01, 0.0001, 0.000001},
       1,
       4096},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1024}})",
       {1, 0.1, 0.003086760967011274, 0.000125},
       1,
       4096},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 1, "original_max_position_embeddings": 1024}})",
       {1, 0.1, 0.01, 0.000125},
       1,
       4096},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}})",
       {1, 0.1, 0.00625, 0.00025},
       1.138629436111989,
       16384},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4}})",
       {1, 0.1, 0.00625, 0.00025},
       1.138629436111989,
       16384},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4, "truncate": false}})",
       {1, 0.1, 0.006556971521129435, 0.00025},
       1.138629436111989,
       16384},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 0.5, "beta_fast": 16, "beta_slow": 2}})",
       {1, 0.1, 0.00625, 0.00025},
       0.5,
       16384},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4, "mscale": 0.7, "mscale_all_dim": 0.5}})",
       {1, 0.1, 0.00625, 0.00025},
       1.0259286501478284,
       16384},
      {R"({"rope_scaling": {"type": "yarn", "factor": 4, "mscale": 0.7, "mscale_all_dim": 0}})",
       {1, 0.1, 0.00625, 0.00025},
       1.138629436111989,
       16384},
      {R"({"partial_rotary_factor": 0.5})", {1, 0.01}, 1, 4096},
  }));
  INFO(row.changes);
  const model::ModelSpec spec = with_rope(row.changes);
  REQUIRE(spec.ropes.size() == 1);
  check_speeds(spec.ropes[0].table, row.speeds, row.scale);
  CHECK_FALSE(spec.ropes[0].long_table.has_value());
  CHECK(spec.ropes[0].rotary_dim == static_cast<int64_t>(2 * row.speeds.size()));
  CHECK(spec.max_position == row.context);
}

TEST_CASE("speeds turn by sections whatever their kind is called") {
  for (const char* scaling : {R"("type": "mrope")",                            // as published
                              R"("rope_type": "default", "type": "default")",  // as saved again
                              R"("rope_theta": 10000)", R"("rope_type": "yarn", "factor": 4)"}) {
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const std::string config =
          fmt::format(R"({{"{}": {{{}, "mrope_section": [1, 1, 2]}}}})", key, scaling);
      INFO(config);
      const model::RopeSpec rope = with_rope(config.c_str()).ropes[0];
      CHECK(rope.sections == std::vector<int64_t>{1, 1, 2});
      CHECK(rope.vllm.in_sections);
    }
  }
  CHECK_THROWS_WITH(with_rope(R"({"rope_scaling": {"mrope_section": [1, 1, 1]}})"),
                    Catch::Contains("mrope_section"));
  const model::RopeSpec none =
      with_rope(R"({"rope_scaling": {"type": "mrope", "mrope_section": null}})").ropes[0];
  CHECK(none.sections.empty());
  CHECK_FALSE(none.vllm.in_sections);
}

TEST_CASE("where a config has no scaling, its class's own counts") {
  struct Row {
    const char* architecture;
    const char* own;
  };
  const Row row = GENERATE(values<Row>({
      {"ApertusForCausalLM", R"({"rope_type": "llama3", "rope_theta": 12e6, "factor": 8.0,
        "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0})"},
      {"CwmForCausalLM", R"({"rope_type": "llama3", "rope_theta": 1e6, "factor": 16.0,
        "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0})"},
      {"GptOssForCausalLM", R"({"rope_type": "yarn", "factor": 32.0, "truncate": false,
        "original_max_position_embeddings": 4096})"},
  }));
  INFO(row.architecture);
  const auto table = [&](const Json& changes) {
    return with_rope(changes.dump().c_str(), row.architecture).ropes[0].table;
  };
  const model::RopeTable missing = table({{"rope_scaling", nullptr}});
  const model::RopeTable own = table({{"rope_scaling", Json::parse(row.own)}});
  CHECK(missing.inverse_frequencies == own.inverse_frequencies);
  CHECK(missing.scale == own.scale);
  const model::RopeTable plain = table({{"rope_parameters", {{"rope_type", "default"}}}});
  CHECK(plain.inverse_frequencies != own.inverse_frequencies);
}

TEST_CASE("longrope has two tables and keeps the stated context") {
  for (const char* kind : {"longrope", "su", "yarn"}) {
    const Json changes = {
        {"max_position_embeddings", 131072},
        {"original_max_position_embeddings", 4096},
        {"rope_scaling",
         {{"type", kind}, {"short_factor", {1, 1, 1, 2}}, {"long_factor", {1, 2, 3, 4}}}}};
    const auto spec = with_rope(changes.dump().c_str(), "Phi3ForCausalLM");
    const double scale = std::sqrt(1 + std::log(32.0) / std::log(4096.0));
    check_speeds(spec.ropes[0].table, {1, 0.1, 0.01, 0.0005}, scale);
    check_speeds(spec.ropes[0].long_table.value(), {1, 0.05, 0.01 / 3, 0.00025}, scale);
    CHECK(spec.ropes[0].original_max_position == 4096);
    CHECK(spec.max_position == 131072);
  }
  const auto scales = with_rope(
      R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 1], "long_factor": [1, 1, 1, 1],
          "short_mscale": 1.5, "long_mscale": 2.5}, "original_max_position_embeddings": 64})",
      "Phi3ForCausalLM");
  CHECK(scales.ropes[0].table.scale == 1.5f);
  CHECK(scales.ropes[0].long_table->scale == 2.5f);
}

TEST_CASE(
    "of two lengths before stretching the config's own goes before the one among the RoPE's") {
  const auto original = [](const char* changes) {
    Json config = Json::parse(changes);
    config["max_position_embeddings"] = 131072;
    config["rope_scaling"].update(
        {{"type", "longrope"}, {"short_factor", {1, 1, 1, 1}}, {"long_factor", {2, 2, 2, 2}}});
    return with_rope(config.dump().c_str(), "Phi3ForCausalLM").ropes[0].original_max_position;
  };
  CHECK(original(R"({"original_max_position_embeddings": 4096,
                     "rope_scaling": {"original_max_position_embeddings": 8192}})") == 4096);
  // Phi-3's class has the config's own always.
  CHECK(original(R"({"rope_scaling": {"original_max_position_embeddings": 8192}})") == 4096);
  CHECK(original(R"({"original_max_position_embeddings": 4096, "rope_scaling": {}})") == 4096);
}

TEST_CASE("a layer type's own length before stretching is not the config's") {
  const auto third_speed = [](const char* parameters) {
    Json config = {{"original_max_position_embeddings", 2048}};
    config["rope_parameters"] = Json::parse(parameters);
    return with_rope(config.dump().c_str()).ropes[0].table.inverse_frequencies[2];
  };
  const char* stretched = R"({"rope_type": "yarn", "factor": 8, "rope_theta": 10000,
                              "original_max_position_embeddings": 64})";
  CHECK(third_speed(fmt::format(R"({{"full_attention": {}}})", stretched).c_str()) ==
        Approx(0.01 / 8));
  CHECK(third_speed(stretched) > 0.01 / 7);
}

TEST_CASE("longrope's lists must fit the head") {
  CHECK_THROWS_WITH(
      with_rope(
          R"({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]}})"),
      Catch::Contains("short_factor") && Catch::Contains("a list of 4 finite numbers above 0"));
  CHECK_THROWS_AS(
      with_rope(
          R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, "x"], "long_factor": []}})"),
      Error);
}

TEST_CASE("Gemma 3 has a RoPE for windowed layers in both spellings") {
  for (
      const char* changes :
      {R"({"rope_theta": 1e8, "rope_local_base_freq": 10000, "rope_scaling": {"rope_type": "linear", "factor": 8}})",
       R"({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e8},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000}}})"}) {
    INFO(changes);
    Json config = Json::parse(changes);
    config["num_hidden_layers"] = 7;
    const auto spec = with_rope(config.dump().c_str(), "Gemma3ForCausalLM");
    REQUIRE(spec.ropes.size() == 2);
    check_speeds(spec.ropes[0].table, {0.125, 0.00125, 0.0000125, 0.000000125});
    check_speeds(spec.ropes[1].table, {1, 0.1, 0.01, 0.001});
    CHECK(spec.layers[4].attention.rope == 1);
    CHECK(spec.layers[5].attention.rope == 0);
    CHECK(spec.layers[5].attention.window == 0);
    CHECK(spec.layers[6].attention.rope == 1);
    CHECK(spec.max_position == 4096);  // Gemma 3 states the scaled context
  }
}

TEST_CASE("layers have RoPEs of their own bases") {
  struct Row {
    const char* architecture;
    const char* changes;
    double full, sliding;  // the second speed: base^-1/4
  };
  const char* types = R"({"num_hidden_layers": 2, "sliding_window": 8, "v_head_dim": 4,
                          "layer_types": ["full_attention", "sliding_attention"]})";
  const double olmo = std::pow(500000, -0.25);
  const Row row = GENERATE_COPY(values<Row>({
      {"Olmo3ForCausalLM", "{}", olmo, olmo},
      {"Olmo3ForCausalLM", R"({"rope_theta": 1e8})", 0.01, olmo},
      {"Olmo3ForCausalLM", R"({"rope_parameters": {"full_attention": {"rope_theta": 1e8}}})", 0.01,
       olmo},
      {"Olmo3ForCausalLM",
       R"({"rope_parameters": {"sliding_attention": {"rope_theta": 1e4}}, "rope_theta": 1e8})",
       0.01, 0.1},
      // Flat ones are none that these classes read.
      {"Olmo3ForCausalLM", R"({"rope_parameters": {"rope_theta": 1e8}})", olmo, olmo},
      {"Gemma3ForCausalLM",
       R"({"rope_theta": 1e8, "rope_local_base_freq": 1e12,
           "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5}})",
       0.01, 0.001},
      {"MiMoV2FlashForCausalLM", R"({"partial_rotary_factor": 1, "rope_theta": 1e8})", 0.01, 0.1},
      {"MiMoV2FlashForCausalLM",
       R"({"partial_rotary_factor": 1, "rope_theta": 1e8, "swa_rope_theta": 1e12})", 0.01, 0.001},
      {"MiMoV2FlashForCausalLM",
       R"({"rope_parameters": {"full_attention": {"rope_theta": 1e4, "partial_rotary_factor": 1},
            "sliding_attention": {"rope_theta": 1e8, "partial_rotary_factor": 1}}})",
       0.1, 0.01},
      {"LagunaForCausalLM", "{}", std::pow(500000, -0.5), 0.1},  // half of the head turns
      {"LagunaForCausalLM",
       R"({"rope_parameters": {"full_attention": {"rope_theta": 1e8},
                               "sliding_attention": {"rope_theta": 1e4}}})",
       0.01, 0.1},
      {"GraniteSWAForCausalLM", R"({"layer_rope_theta": [1e8, 1e4]})", 0.01, 0.1},
      {"GraniteSWAForCausalLM",
       R"({"layer_rope_theta": [1e8, 1e4],
           "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5}})",
       0.005, 0.05},
      {"GraniteMoeSWAForCausalLM",
       R"({"layer_rope_theta": [1e8, 1e4],
           "rope_scaling": {"rope_type": "linear", "factor": 2, "rope_theta": 5}})",
       0.005, 0.05},
  }));
  INFO(row.architecture << " " << row.changes);
  Json config = Json::parse(types);
  config["num_key_value_heads"] = 1;
  config.merge_patch(Json::parse(row.changes));
  const auto spec = with_rope(config.dump().c_str(), row.architecture);
  const auto speed = [&](size_t layer) {
    const auto rope = static_cast<size_t>(spec.layers[layer].attention.rope);
    return spec.ropes.at(rope).table.inverse_frequencies.at(1);
  };
  CHECK(spec.layers[1].attention.window == 8);
  CHECK(speed(0) == Approx(row.full).epsilon(4e-7));
  CHECK(speed(1) == Approx(row.sliding).epsilon(4e-7));
}

TEST_CASE("DBRX's RoPE stands outside its attention's object, or its base within") {
  const auto second_speed = [](const char* changes) {
    Json config = Json::parse(changes);
    config.update(Json::parse(R"({"d_model": 16, "n_heads": 2, "n_layers": 1})"));
    for (const char* key : {"hidden_size", "num_attention_heads"}) config[key] = nullptr;
    return with_rope(config.dump().c_str(), "DbrxForCausalLM")
        .ropes.front()
        .table.inverse_frequencies.at(1);
  };
  CHECK(second_speed("{}") == Approx(0.1));
  CHECK(second_speed(R"({"attn_config": {"rope_theta": 1e8}})") == Approx(0.01));
  CHECK(second_speed(R"({"attn_config": {"rope_theta": 1e8}, "rope_theta": 1e12})") ==
        Approx(0.001));
  CHECK(second_speed(R"({"attn_config": {"rope_theta": 1e8},
                         "rope_parameters": {"rope_type": "linear", "factor": 2,
                                             "rope_theta": 1e12}})") == Approx(0.0005));
}

TEST_CASE("parameters nested by layer type count for families with one RoPE too") {
  const auto spec = with_rope(
      R"({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 4, "rope_theta": 10000}}})");
  check_speeds(spec.ropes[0].table, {0.25, 0.025, 0.0025, 0.00025});
}
