// Helpers of the functions that build a model's layers. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/config_view.h"
#include "model/spec/attention.h"
#include "vllm/shapes/model_shape.h"
#include "vllm/shapes/rank_weights.h"

namespace plimsoll::vllm {

/// Divides the sizes of a weight over ranks (model/vllm/rank_rows.h); a refusal names `what`.
struct Shares {
  const RankWeights& weights;
  const char* what;
  [[nodiscard]] int64_t share(int64_t size) const { return weights.share(size, what); }
  [[nodiscard]] int64_t kv_share(int64_t rows, int64_t heads) const {
    return rows / (heads / weights.kv_heads(heads));
  }
  [[nodiscard]] int64_t vocabulary(int64_t padded) const { return weights.vocabulary_rows(padded); }
};

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
  RankWeights& weights;
  ModelShape& shape;
  TextDims dims = {};
  bool counted_positions = false;  // the family's, or its wrapper's

  [[nodiscard]] int64_t kv_element() const { return options.kv_element; }
  /// Gains of norms over `width` elements together.
  void norm(int64_t width) const { weights.plain(Part::norm, width); }
};

/// The cache of an attention layer of `heads` key-value heads on this rank.
KvLayer attention_cache(const Builder& build, int64_t kv_heads, int64_t key_size,
                        int64_t value_size, int64_t window, KvKind kind);

/// Appends the cache of a layer with latents; `sparse`: an indexer chooses keys.
void add_latent_cache(Builder& build, const model::LatentSpec& latent, bool sparse);

/// The keys of an indexer, each of which stands for `pool` tokens: a cache of one kind wherever it
/// stands.
KvLayer index_cache(Amount key_bytes, int64_t pool);

/// Adds the pooler or classifier of models that do not generate, in place of an output projection.
/// Returns false in models that have one.
bool add_pooling_head(Builder& build);
/// True when the model answers with classes of each step.
bool classifies_steps(std::string_view architecture);
/// Rows of a rotary table in the release. A table in sections of time, height and width is enlarged
/// for videos.
int64_t table_rows(const Builder& build, const model::RotaryRows& rows, bool in_sections);
/// True where the table of DeepSeek's YaRN is in float32, because FlashInfer rotates.
bool has_float_table(const Builder& build, std::string_view kind);
/// True where an indexer that rotates halves, beside attention that rotates pairs, has a table of
/// its own.
bool has_indexer_table(const Builder& build);
/// Vision and audio towers and their projectors. Returns false when none of the config's towers is
/// known.
bool add_towers(const ConfigView& config, const std::string& architecture, Builder& build);
bool is_known_tower(const std::string& architecture);

}  // namespace plimsoll::vllm
