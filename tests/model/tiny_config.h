// Small configs for tests.
#pragma once

#include <string>

#include "base/json.h"

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

}  // namespace plimsoll::testing
