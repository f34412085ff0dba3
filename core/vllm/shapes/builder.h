// Helpers of the functions that build a model's layers. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/config_view.h"
#include "model/spec/attention.h"
#include "vllm/shapes/families.h"
#include "vllm/shapes/model_shape.h"
#include "vllm/shapes/rank_weights.h"

namespace plimsoll::vllm {

/// Dimensions of a language model under the names that configs use.
struct TextDims {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  int64_t positions = 0;
  bool tied = false;
};

struct Builder {
  const ConfigView& whole;
  const ConfigView& config;  // of the language model
  const ShapeOptions& options;
  const Family& family;
  RankWeights& weights;
  ModelShape& shape;
  TextDims dims = {};
  std::vector<std::string> layer_types = {};  // as the config lists them, or empty
  bool counted_positions = false;             // the family's, or its wrapper's

  [[nodiscard]] std::string layer_path(int64_t layer) const {
    return "layers." + std::to_string(layer);
  }
  /// A family's switch, read from the config.
  [[nodiscard]] bool bias(Bias rule) const {
    if (rule.key == nullptr) return rule.fallback;
    return config.flag({rule.key}, rule.fallback);
  }
  [[nodiscard]] int64_t kv_element() const { return options.kv_element; }
  [[nodiscard]] std::string layer_type(int64_t layer) const {
    const auto i = static_cast<size_t>(layer);
    return i < layer_types.size() ? layer_types[i] : std::string();
  }
  /// Gains (and biases) of one norm over `width` elements.
  void norm(int64_t width, Part part = Part::norm) const {
    weights.plain(part, Amount{width} * (family.norm == Norm::layer ? 2 : 1));
  }
};

TextDims read_dims(const ConfigView& config, const Family& family);
/// Builds the layers of one stage by the family's row, and what stands before and after them there.
void build_decoder(Builder& build);

/// The cache of an attention layer of `heads` key-value heads on this rank.
KvLayer attention_cache(const Builder& build, int64_t kv_heads, int64_t key_size,
                        int64_t value_size, int64_t window, KvKind kind);

/// Appends the cache of a layer with latents of so many elements; `sparse`: an indexer chooses
/// keys.
void add_latent_cache(Builder& build, int64_t elements, bool sparse);

/// The keys of an indexer, `token_bytes` of each token: a cache of one kind wherever it stands.
KvLayer index_cache(Amount token_bytes);

/// Mixers: each counts one layer's token mixing and appends its cache.
void add_attention(Builder& build, int64_t layer);
void add_latent_attention(Builder& build, int64_t layer);
void add_gated_latent(Builder& build, int64_t layer);
void add_grouped_lightning(Builder& build, int64_t layer);
void add_grouped_delta(Builder& build, int64_t layer);
void add_crossed_attention(Builder& build, int64_t layer);
/// Whole layers, with their feed-forward.
void add_kimi_layer(Builder& build, int64_t layer);
void add_compressed_layer(Builder& build, int64_t layer);

/// Feed-forward of one layer: dense or routed.
void add_feed_forward(Builder& build, int64_t layer);
/// A layer with experts for text and others for images, whose settings are lists of two.
void add_paired_experts(Builder& build, int64_t layer, const std::string& path);
/// Adds the pooler or classifier of models that do not generate, in place of an output projection.
/// Returns false in models that have one.
bool add_pooling_head(Builder& build);
/// True when the model answers with classes of each step.
bool classifies_steps(std::string_view architecture);
/// One gated or plain multi-layer perceptron.
void add_mlp(Builder& build, const std::string& path, int64_t intermediate, Part part,
             bool bias = false);
/// True when the layer's feed-forward is a mixture of experts.
bool is_mixture_layer(const Builder& build, int64_t layer);

/// The rotary table of a layer. `layer_type` selects the config's rope settings.
void add_rotary(Builder& build, int64_t head_size, const std::string& layer_type);
/// Rows of a rotary table in the release. A table in sections of time, height and width is enlarged
/// for videos.
int64_t table_rows(const Builder& build, const model::RotaryRows& rows, bool in_sections);
/// True where the table of DeepSeek's YaRN is in float32, because FlashInfer rotates.
bool has_float_table(const Builder& build, std::string_view kind);
/// True where an indexer that rotates halves, beside attention that rotates pairs, has a table of
/// its own.
bool has_indexer_table(const Builder& build);
/// The factor by which rope scaling stretches the positions, and the table's element size.
RotaryTable rotary_table(const Builder& build, int64_t head_size, const std::string& layer_type);

/// Mixture settings that several families share.
struct Mixture {
  int64_t experts = 0;
  int64_t per_token = 0;
  int64_t intermediate = 0;         // of one expert
  int64_t shared_intermediate = 0;  // of the shared experts together; 0: none
};
Mixture read_mixture(const Builder& build);
/// True when the config states a number of experts.
bool has_experts(const ConfigView& config);

/// Vision and audio towers and their projectors. Returns false when none of the config's towers is
/// known.
bool add_towers(const ConfigView& config, const std::string& architecture, Builder& build);
bool is_known_tower(const std::string& architecture);

}  // namespace plimsoll::vllm
