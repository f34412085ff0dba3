// Small configs for tests, and weights of what is described.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/json.h"
#include "model/model_spec.h"

namespace plimsoll::testing {

/// A small Llama-like config of `architecture`, with `changes` merged in (null removes a key).
inline Json tiny_config(const std::string& architecture, const Json& changes = Json::object()) {
  Json config = {{"vocab_size", 100},
                 {"hidden_size", 16},
                 {"intermediate_size", 24},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 4},
                 {"max_position_embeddings", 128},
                 {"vocab_size_per_layer_input", 100},
                 {"torch_dtype", "float32"}};
  config["architectures"] = Json::array({architecture});
  config.merge_patch(changes);
  return config;
}

inline const model::WeightSpec& weight_named(const model::ModelSpec& spec,
                                             const std::string& name) {
  const auto at = std::ranges::find(spec.weights, name, &model::WeightSpec::name);
  if (at == spec.weights.end()) throw std::runtime_error("no weight " + name);
  return *at;
}

}  // namespace plimsoll::testing
