// What a family assumes where a config is silent, and what transformers' class of configs does
// (class_defaults.json), which plans fill in first: the same model.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json.h"
#include "model/class_defaults.h"
#include "model/config.h"

namespace plimsoll::vllm {
namespace {

namespace fs = std::filesystem;

std::string shape_of(const model::WeightSpec& weight) {
  std::string text = weight.name;
  for (const model::Part& part : weight.parts) {
    text += fmt::format(" {} of {}", part.rows(), fmt::join(part.stored_shape, "x"));
  }
  return text;
}

/// Weights and lengths, a line each; the refusal for a config that is none.
std::vector<std::string> model_of(const Json& config) {
  try {
    const model::ModelSpec spec = model::make_model_spec(config);
    std::vector<std::string> lines = {fmt::format("{} positions, {} tied, scales {} {}",
                                                  spec.max_position, spec.head == spec.embedding,
                                                  spec.embedding_scale, spec.logits_scale)};
    for (const model::WeightSpec& weight : spec.weights) lines.push_back(shape_of(weight));
    for (const model::RopeSpec& rope : spec.ropes) {
      lines.push_back(fmt::format("rope of {} by {}", rope.rotary_dim, rope.vllm.theta));
    }
    for (const model::LayerSpec& layer : spec.layers) {
      lines.push_back(fmt::format("window {}, scale {}, {} experts", layer.attention.window,
                                  layer.attention.scale, layer.mlp.experts_per_token));
    }
    return lines;
  } catch (const Error& error) {
    return {error.what()};
  }
}

bool is_refusal(const std::vector<std::string>& lines) {
  return lines.size() == 1;
}

std::vector<fs::path> golden_models() {
  std::vector<fs::path> folders;
  for (const auto& entry :
       fs::directory_iterator(PLIMSOLL_SOURCE_DIR "/tests/data/golden/models")) {
    if (fs::is_regular_file(entry.path() / "config.json")) folders.push_back(entry.path());
  }
  return folders;
}

}  // namespace

TEST_CASE("a key that is left out means the same to a family and to the class of its configs") {
  int compared = 0;
  for (const fs::path& folder : golden_models()) {
    const Json whole = model::read_config(folder);
    for (const auto& [key, value] : whole.items()) {
      if (key == "architectures" || key == "model_type") continue;
      Json config = whole;
      config.erase(key);
      Json completed = config;
      model::complete_config(completed, model::ConfigClasses::vllm);
      if (!completed.contains(key)) continue;
      const std::vector<std::string> own = model_of(config);
      const std::vector<std::string> filled = model_of(completed);
      // A key that `run` wants to be said; a class's count of heads that small models do not have.
      if (is_refusal(own) || is_refusal(filled)) continue;
      INFO(folder.filename().string()
           << " without " << key << ", assumed " << completed[key].dump());
      CHECK(own == filled);
      ++compared;
    }
  }
  CHECK(compared > 50);
}

TEST_CASE("families that no small golden model has assume what their classes do") {
  const Json sizes = {{"vocab_size", 512},        {"num_hidden_layers", 2},
                      {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                      {"num_experts", 16},        {"num_local_experts", 16},
                      {"n_routed_experts", 16},   {"num_layers", 2}};
  const std::pair<const char*, const char*> models[] = {
      {"Cohere2MoeForCausalLM", "cohere2_moe"},
      {"GraniteMoeSharedForCausalLM", "granitemoeshared"},
      {"LongcatFlashForCausalLM", "longcat_flash"},
      {"MellumForCausalLM", "mellum"}};
  for (const auto& [architecture, type] : models) {
    INFO(type);
    Json config = sizes;
    config["architectures"] = {architecture};
    config["model_type"] = type;
    Json completed = config;
    model::complete_config(completed, model::ConfigClasses::vllm);
    CHECK(completed.size() > config.size());
    const std::vector<std::string> own = model_of(config);
    CHECK(!is_refusal(own));
    CHECK(own == model_of(completed));
  }
}

}  // namespace plimsoll::vllm
