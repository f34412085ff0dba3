// The architectures of GGUF files, a row each.
#pragma once

#include <span>
#include <string_view>

#include "base/json.h"
#include "checkpoint/gguf/keys.h"

namespace plimsoll::checkpoint::gguf {

/// A key of config.json, and the metadata key that has the same value.
struct KeyPair {
  std::string_view config;
  std::string_view metadata;
};

/// What a file of an architecture leaves unsaid.
struct Unsaid {
  std::string_view activation = "silu";  // "": none is put into the config
  /// Rows of q and k of each head are stored as pairs, 0, d/2, 1, d/2 + 1 ... (llama.cpp's
  /// converter permutes them).
  bool permuted = false;
  bool late_mlp_norm = false;  // the norm before the MLP is called post_attention_norm
};

struct Architecture {
  std::string_view name;          // "general.architecture"
  std::string_view architecture;  // config.json's
  std::string_view model_type;
  std::span<const KeyPair> keys = {};
  void (*finish)(const Keys& keys, Json& config) = nullptr;
  Unsaid unsaid = {};
};

/// A model whose files bear another architecture's name.
struct Namesake {
  std::string_view name;  // "general.architecture"
  bool (*found)(const Keys& keys);
  std::string_view architecture;  // config.json's
  std::string_view model_type;
};

/// The row of an architecture; null: it is not known.
const Architecture* find_architecture(std::string_view name);
/// The other model that this file holds; null: it holds what it is named after.
const Namesake* find_namesake(const Keys& keys);
std::span<const Architecture> architectures();

}  // namespace plimsoll::checkpoint::gguf
