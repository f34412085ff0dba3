// The language model: embedding, layers, output projection.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/pipeline.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

constexpr Bounds kLayerCount{1, 4096};
constexpr Bounds kHeadCount{1, 1 << 20};

void add_embedding(Builder& build) {
  const TextDims& dims = build.dims;
  if (build.family.whole_embedding) {
    build.weights.plain(Part::embedding, Amount{dims.vocabulary} * dims.hidden);
  } else {
    build.weights.vocabulary(Part::embedding, dims.vocabulary, dims.hidden);
  }
  if (build.family.positions == Positions::learned) {
    build.weights.plain(Part::embedding, Amount{dims.positions} * dims.hidden);
  }
}

void add_layer(Builder& build, int64_t layer) {
  const Family& family = build.family;
  for (int64_t i = 0; i < family.norms; ++i) build.norm(build.dims.hidden);
  switch (family.mixer) {
    case Mixer::attention:
      add_attention(build, layer);
      break;
    case Mixer::gated_latent:
      add_gated_latent(build, layer);
      break;
    case Mixer::kimi_delta:
      add_kimi_layer(build, layer);
      return;
    case Mixer::crossed:
      add_crossed_attention(build, layer);
      break;
    case Mixer::lightning_groups:
      add_grouped_lightning(build, layer);
      break;
    case Mixer::kimi_groups:
      add_grouped_delta(build, layer);
      break;
    case Mixer::compressed:
      add_compressed_layer(build, layer);
      return;
  }
  add_feed_forward(build, layer);
}

void add_head(Builder& build) {
  const TextDims& dims = build.dims;
  if (!dims.tied) {
    build.weights.lm_head(dims.vocabulary, dims.hidden, false);
  } else if (build.options.pipeline_parallel > 1) {
    build.weights.vocabulary(Part::lm_head, dims.vocabulary, dims.hidden);
  }
}

}  // namespace

namespace {

int64_t stated_heads(const ConfigView& config, const Family& family) {
  if (family.mixer == Mixer::crossed)
    return config.required({"decoder_attention_heads"}, kHeadCount);
  return config.required({"num_attention_heads", "n_heads"}, kHeadCount);
}

}  // namespace

TextDims read_dims(const ConfigView& config, const Family& family) {
  TextDims dims;
  const bool crossed = family.mixer == Mixer::crossed;  // other keys name the encoder's sizes
  dims.layers = crossed
                    ? config.required({"decoder_layers"}, kLayerCount)
                    : config.required({"num_hidden_layers", "n_layer", "num_layers", "n_layers"},
                                      kLayerCount);
  dims.hidden = config.required({"hidden_size", "d_model"});
  dims.heads = stated_heads(config, family);
  dims.vocabulary = config.required({"padded_vocab_size", "vocab_size"});
  dims.kv_heads = config.integer({"num_key_value_heads", "num_kv_heads", "num_attention_groups"},
                                 dims.heads, kHeadCount);
  if (config.flag({"multi_query_attention"}, false)) {
    dims.kv_heads = config.integer({"multi_query_group_num"}, 1, kHeadCount);
  }
  dims.head_size = config.integer({"head_dim", "attention_head_dim"}, 0);
  if (dims.head_size == 0 && config.has("kv_lora_rank")) {
    dims.head_size = config.integer({"v_head_dim"}, 128, {1, 1 << 20});
  }
  if (dims.head_size == 0) {
    if (dims.hidden % dims.heads != 0) {
      fail(ExitCode::checkpoint_unusable,
           "{}: \"hidden_size\" {} is not a multiple of \"num_attention_heads\" {}, and "
           "\"head_dim\" is not given",
           config.path(), dims.hidden, dims.heads);
    }
    dims.head_size = dims.hidden / dims.heads;
  }
  if (dims.heads % dims.kv_heads != 0) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"num_attention_heads\" {} is not a multiple of \"num_key_value_heads\" {}",
         config.path(), dims.heads, dims.kv_heads);
  }
  const std::vector<int64_t> widths = config.integers({"intermediate_size", "ffn_hidden_size"});
  dims.intermediate = !widths.empty() ? widths.front() : (family.gated ? 0 : 4 * dims.hidden);
  if (dims.intermediate < 0 || dims.intermediate > int64_t{1} << 31) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"intermediate_size\" is {}, expected a positive integer", config.path(),
         dims.intermediate);
  }
  if (crossed) dims.intermediate = config.required({"decoder_ffn_dim"});
  dims.positions = config.integer(
      {"max_position_embeddings", "n_positions", "seq_length", "n_ctx", "max_seq_len",
       "max_seq_length", "model_max_length", "max_position_embedding", "max_target_positions"},
      0);
  dims.tied = family.whole_embedding ||
              config.flag({"tie_word_embeddings", "tie_embedding_weights"}, family.tied);
  dims.tied &= !family.own_head;
  return dims;
}

void build_decoder(Builder& build) {
  const ShapeOptions& options = build.options;
  const model::StageLayers layers =
      model::layers_of_stage(build.dims.layers, options.pipeline_rank, options.pipeline_parallel,
                             options.pipeline_partition);
  const bool first = options.pipeline_rank == 0;
  const bool last = options.pipeline_rank + 1 == options.pipeline_parallel;
  build.shape.first_layer = layers.first;
  build.shape.stage_layers = layers.end - layers.first;
  if (first) add_embedding(build);
  for (int64_t layer = layers.first; layer < layers.end; ++layer) add_layer(build, layer);
  if (!last) return;
  build.norm(build.dims.hidden);
  if (!add_pooling_head(build)) add_head(build);
}

}  // namespace plimsoll::vllm
