// Arguments, a config and a cache of a few layers, which tests of launches change.
#pragma once

#include "base/json.h"
#include "vllm/engine_args.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::testing {

inline vllm::EngineArgs at(vllm::VllmVersion version) {
  vllm::EngineArgs args;
  args.version = version;
  return args;
}

/// A Llama of two layers.
inline Json tiny_llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"torch_dtype", "bfloat16"},
          {"hidden_size", 1024},
          {"intermediate_size", 4096},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 16},
          {"num_key_value_heads", 4},
          {"vocab_size", 32000},
          {"max_position_embeddings", 4096}};
}

inline vllm::KvLayer layer_of(vllm::KvKind kind, int64_t bytes, int64_t window = 0) {
  vllm::KvLayer layer;
  layer.kind = kind;
  layer.token_bytes = bytes;
  layer.window = window;
  return layer;
}

}  // namespace plimsoll::testing
