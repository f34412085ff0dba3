// A config.json as engines in Python see it: with the defaults of its class, the language model's
// part apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_view.h"
#include "base/json.h"

namespace plimsoll::engines {

/// Bounds of sizes in a config: products of several stay below 2^63.
inline constexpr Bounds kSize{1, int64_t{1} << 20};
inline constexpr Bounds kSizeOrNone{0, int64_t{1} << 20};
/// Bounds of numbers of heads and of their widths.
inline constexpr Bounds kHead{1, int64_t{1} << 13};
inline constexpr Bounds kHeadOrNone{0, int64_t{1} << 13};

/// Heads of gated delta rules, values of a head, and tokens that its convolution sees.
struct DeltaSizes {
  int64_t k_heads = 0, k_dim = 0;
  int64_t v_heads = 0, v_dim = 0;
  int64_t kernel = 0;
};

class ModelConfig {
 public:
  /// Throws Error(checkpoint_unusable).
  ModelConfig(const Json& config, const std::string& path);

  [[nodiscard]] const std::string& architecture() const { return architecture_; }
  [[nodiscard]] ConfigView root() const { return {config_, path_}; }
  /// The language model's part: text_config, llm_config, language_config, or the whole.
  [[nodiscard]] ConfigView text() const;
  [[nodiscard]] bool has_part(Keys keys) const { return root().has_child(keys); }

  [[nodiscard]] int64_t layers() const;
  [[nodiscard]] int64_t heads() const;
  [[nodiscard]] int64_t hidden() const;
  [[nodiscard]] int64_t head_dim() const;
  [[nodiscard]] int64_t kv_heads() const;
  [[nodiscard]] int64_t vocabulary() const;
  /// Experts of a mixture; 0: none.
  [[nodiscard]] int64_t experts() const;
  /// Values that latent attention keeps of a token: the latent and the rotated part of the key.
  [[nodiscard]] int64_t latent_width() const;
  /// Values of an indexer's key.
  [[nodiscard]] int64_t index_width() const;
  /// Layers that select tokens by an index of their own; nullopt: the config does not say.
  [[nodiscard]] std::optional<int64_t> indexing_layers() const;
  /// Layers of DeepSeek-V4 that compress `ratio` tokens to one.
  [[nodiscard]] int64_t compressed_layers(int64_t ratio) const;
  [[nodiscard]] DeltaSizes delta_sizes() const;
  /// "bfloat16", "float16", "float32"; empty: not stated.
  [[nodiscard]] std::string dtype() const;
  /// The quantization's own object; empty: none.
  [[nodiscard]] ConfigView quantization() const;
  /// True where a ModelOpt checkpoint says that its KV cache is FP8.
  [[nodiscard]] bool stores_fp8_cache() const;
  /// Layers by kind: layer_types as stated, or made of a config's other keys; empty: all alike.
  [[nodiscard]] std::vector<std::string> layer_types() const;

 private:
  Json config_;
  std::string path_;
  std::string architecture_;
};

/// Number of entries equal to `kind`.
int64_t count_of(const std::vector<std::string>& types, std::string_view kind);

/// Bytes of an element: bfloat16 2, float8_e4m3fn 1, float32 4; 2 for a name not known here.
int64_t element_bytes(std::string_view dtype);

}  // namespace plimsoll::engines
