// Defaults of config classes (class_defaults.json): the models of configs that state nothing but
// their type are those of what transformers itself saves of them.
#include "model/class_defaults.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config_json.h"
#include "base/error.h"
#include "base/json.h"
#include "model/config.h"

namespace plimsoll::model {
namespace {

std::string shape_of(const WeightSpec& weight) {
  std::string text = weight.name;
  for (const Part& part : weight.parts) {
    text += fmt::format(" {} of {}", part.rows(), fmt::join(part.stored_shape, "x"));
  }
  return text;
}

std::string rope_of(const RopeSpec& rope) {
  const auto& table = rope.table.inverse_frequencies;
  return fmt::format("rope of {} by {} {}: {} to {} times {}", rope.rotary_dim, rope.vllm.kind,
                     rope.vllm.theta, table.empty() ? 0 : table.front(),
                     table.empty() ? 0 : table.back(), rope.table.scale);
}

std::string layer_of(const ModelSpec& spec, const LayerSpec& layer) {
  const AttentionSpec& attention = layer.attention;
  const RouterSpec& router = layer.mlp.router;
  const bool turns = attention.rope >= 0 && attention.rope < std::ssize(spec.ropes);
  const std::string rope = turns ? rope_of(spec.ropes[static_cast<size_t>(attention.rope)]) : "";
  return fmt::format(
      "window {}, scale {}, cap {}, {}, norm {}, branches {}, {} of {} experts ({} of {} "
      "groups) times {} {}, acts {}",
      attention.window, attention.scale, attention.soft_cap, rope, layer.attention_norm.epsilon,
      layer.branch_factor, layer.mlp.experts_per_token, layer.mlp.experts, router.groups_chosen,
      router.groups, router.factor, router.normalize, static_cast<int>(layer.mlp.activation));
}

/// Weights, lengths and factors, a line each; the refusal for a config that is none.
std::vector<std::string> model_of(const Json& config) {
  try {
    const ModelSpec spec = make_model_spec(config);
    std::vector<std::string> lines = {fmt::format(
        "{} positions, {} tied, scales {} {}, cap {}", spec.max_position,
        spec.head == spec.embedding, spec.embedding_scale, spec.logits_scale, spec.final_soft_cap)};
    for (const WeightSpec& weight : spec.weights) lines.push_back(shape_of(weight));
    for (const LayerSpec& layer : spec.layers) lines.push_back(layer_of(spec, layer));
    return lines;
  } catch (const Error& error) {
    return {error.what()};
  }
}

std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) return a[i] + "\n" + b[i];
  }
  return fmt::format("{} and {} lines", a.size(), b.size());
}

Json completed(Json config, ConfigClasses whose = ConfigClasses::transformers) {
  complete_config(config, whose);
  return config;
}

}  // namespace

TEST_CASE("a config that says nothing but its type is what its class saves") {
  const Json rows = read_config_json(PLIMSOLL_SOURCE_DIR "/tests/data/silent_configs.json");
  int models = 0;
  for (const Json& row : rows) {
    Json saved = row["saved"];
    saved["architectures"] = {row["architecture"]};
    const Json silent = {{"architectures", saved["architectures"]},
                         {"model_type", saved["model_type"]}};
    const std::vector<std::string> own = model_of(silent), expected = model_of(saved);
    INFO(row["architecture"] << "\n" << own.front() << "\n" << first_difference(own, expected));
    if (own.size() == 1 && own.front().find("is missing") != std::string::npos) continue;
    CHECK(own == expected);
    ++models;
  }
  CHECK(models > 90);
}

TEST_CASE("what a config states is left as it is, under any name that its class takes") {
  const Json config =
      completed({{"model_type", "gpt2"}, {"hidden_size", 64}, {"n_layer", nullptr}});
  CHECK(config["hidden_size"] == 64);
  CHECK_FALSE(config.contains("n_embd"));
  CHECK(config["n_layer"].is_null());
  CHECK(config["n_head"] == 12);
}

TEST_CASE("a class's RoPE is assumed whole, and only of a config without one") {
  CHECK(completed({{"model_type", "cwm"}})["rope_parameters"]["factor"] == 16);
  const Json given = {{"rope_type", "linear"}, {"factor", 2}};
  CHECK(completed({{"model_type", "cwm"}, {"rope_parameters", given}})["rope_parameters"] == given);
  CHECK_FALSE(
      completed({{"model_type", "cwm"}, {"rope_scaling", given}}).contains("rope_parameters"));
}

TEST_CASE("a text's defaults go into its config, or around it where an older one is flat") {
  const Json text = {{"hidden_size", 64}};
  const Json nested = completed({{"model_type", "qwen2_vl"}, {"text_config", text}});
  CHECK(nested["text_config"]["num_hidden_layers"] == 80);
  CHECK_FALSE(nested.contains("num_hidden_layers"));
  CHECK(completed({{"model_type", "qwen2_vl"}})["num_hidden_layers"] == 80);
}

TEST_CASE("vLLM's own classes count where vLLM reads the config") {
  const Json silent = {{"model_type", "kimi_linear"}};
  CHECK(completed(silent)["hidden_size"] == 2304);
  CHECK(completed(silent, ConfigClasses::vllm)["hidden_size"] == 4096);
}

TEST_CASE("an architecture's usual type stands in for one that has no class") {
  Json config = {{"model_type", "wombat"}};
  complete_config(config, ConfigClasses::transformers, "qwen3");
  CHECK(config["head_dim"] == 128);
}

}  // namespace plimsoll::model
