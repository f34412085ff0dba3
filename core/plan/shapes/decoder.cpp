// The language model: embedding, layers, output projection.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/pipeline.h"
#include "plan/shapes/builder.h"

namespace plimsoll::plan {
namespace {

constexpr Bounds kLayerCount{1, 4096};
constexpr Bounds kHeadCount{1, 1 << 20};

void add_embedding(Builder& build) {
  const TextDims& dims = build.dims;
  const int64_t width = build.config.integer({"word_embed_proj_dim"}, dims.hidden);
  if (build.family.whole_embedding) {
    build.weights.plain(Part::embedding, Amount{dims.vocabulary} * width);
  } else {
    build.weights.vocabulary(Part::embedding, dims.vocabulary, width);
  }
  if (width != dims.hidden) {  // OPT-350m projects in and out of a narrower embedding
    build.weights.plain(Part::embedding, Amount{width} * dims.hidden * 2);
  }
  if (build.family.positions == Positions::learned) {
    const int64_t rows = dims.positions + build.family.extra_positions;
    if (build.family.pooling) {
      constexpr int64_t kPositionId = 8;  // int64
      build.weights.vocabulary(Part::embedding, rows, dims.hidden);
      build.weights.buffer(Amount{rows} * kPositionId);
    } else {
      build.weights.plain(Part::embedding, Amount{rows} * dims.hidden);
    }
  }
  if (build.family.pooling) {
    const int64_t usual = build.family.positions == Positions::learned ? 2 : 0;
    const int64_t types = build.config.integer({"type_vocab_size"}, usual, {0, 1 << 20});
    if (types > 0) build.weights.vocabulary(Part::embedding, types, dims.hidden);
  }
  if (build.family.embedding_norm) build.norm(dims.hidden, Part::embedding);
  if (build.family.embedding_scale) build.weights.buffer(build.options.element);
}

int64_t layer_norms(const Builder& build) {
  const Family& family = build.family;
  if (family.parallel_norm && build.config.flag({"parallel_attn"}, true)) {
    // Attention and feed-forward read the same norm, but for the 40B and larger.
    const bool larger = build.config.flag({"new_decoder_architecture"}, false);
    return larger ? build.config.integer({"num_ln_in_parallel_attn"}, 2, {1, 2}) : 1;
  }
  const bool more = family.norms_key != nullptr && build.config.flag({family.norms_key}, false);
  return family.norms + (more ? 2 : 0);
}

void add_layer(Builder& build, int64_t layer) {
  const Family& family = build.family;
  if (family.mixer == Mixer::blocks) {
    add_block_layer(build, layer);
    return;
  }
  for (int64_t i = 0; i < layer_norms(build); ++i) build.norm(build.dims.hidden);
  build.weights.plain(Part::mlp, family.activation_scalars);
  build.weights.buffer(Amount{family.activation_scalars} * build.options.element);
  switch (family.mixer) {
    case Mixer::attention:
      add_attention(build, layer);
      break;
    case Mixer::latent:
      add_latent_attention(build, layer);
      break;
    case Mixer::latent_twice:
      for (int half = 0; half < 2; ++half) {
        add_latent_attention(build, layer);
        add_mlp(build, build.layer_path(layer) + ".mlps." + std::to_string(half),
                build.dims.intermediate, Part::mlp);
      }
      build.shape.activation.intermediate = build.dims.intermediate / build.weights.ranks();
      break;
    case Mixer::delta:
    case Mixer::delta_split:
    case Mixer::delta_plain:
      add_delta_mixer(build, layer);
      break;
    case Mixer::kimi_delta:
    case Mixer::kimi_delta3:
      add_kimi_layer(build, layer);
      return;
    case Mixer::mamba_pattern:
      add_mamba(build, layer);
      return;  // the only mixer of its layer
    case Mixer::mamba_shared:
      add_shared_layer(build, layer);
      return;
    case Mixer::mamba1_alone:
    case Mixer::mamba2_alone:
      add_mamba(build, layer);
      return;
    case Mixer::mamba_layers:
    case Mixer::mamba_beside:
      add_mamba(build, layer);
      break;
    case Mixer::expanded:
      add_expanded_latent(build, layer);
      break;
    case Mixer::factored:
      add_factored_attention(build, layer);
      break;
    case Mixer::crossed:
      add_crossed_attention(build, layer);
      break;
    case Mixer::lightning:
      add_lightning(build, layer);
      break;
    case Mixer::lightning_groups:
      add_grouped_lightning(build, layer);
      break;
    case Mixer::kimi_groups:
      add_grouped_delta(build, layer);
      break;
    case Mixer::conv:
      add_short_conv(build, layer);
      break;
    case Mixer::gemma4:
      add_gemma4_layer(build, layer);
      return;
    case Mixer::compressed:
      add_compressed_layer(build, layer);
      return;
    case Mixer::blocks:
      return;  // whole above
  }
  add_feed_forward(build, layer);
}

void add_head(Builder& build) {
  const TextDims& dims = build.dims;
  const bool apart = build.options.pipeline_parallel > 1 && build.family.stages == Stages::divided;
  if (!dims.tied) {
    build.weights.lm_head(dims.vocabulary, dims.hidden, build.bias(build.family.lm_head_bias));
  } else if (apart) {
    build.weights.vocabulary(Part::lm_head, dims.vocabulary, dims.hidden);
    // The generic backend keeps all that stands before the layers beside a tied head.
    if (build.family.positions == Positions::learned) {
      build.weights.plain(Part::lm_head, Amount{dims.positions} * dims.hidden);
    }
    if (build.family.generic && build.family.embedding_scale)
      build.weights.buffer(build.options.element);
  }
}

/// A causal mask of bytes, which the generic backend leaves on every stage.
void add_mask(Builder& build) {
  const Family& family = build.family;
  if (!family.generic || family.positions != Positions::learned) return;
  const int64_t rows = build.dims.positions + family.extra_positions;
  build.weights.buffer(Amount{rows} * rows);
}

/// What stands after the layers, as far as this stage has it.
void add_output(Builder& build, bool last) {
  const Stages stages = build.family.stages;
  const bool head = last || stages == Stages::repeated || stages == Stages::norm_at_end;
  // BERT's last layer ends with a norm already; its embedding has the one that is counted here.
  if (build.family.norms > 0 && (last || stages == Stages::repeated)) build.norm(build.dims.hidden);
  if (head && !add_pooling_head(build)) add_head(build);
}

}  // namespace

namespace {

/// LFM2 derives the width of its feed-forward from a stated one, as the first Llama did.
int64_t adjusted_intermediate(const ConfigView& config, int64_t stated) {
  if (!config.flag({"block_auto_adjust_ff_dim"}, false) || stated <= 0) return stated;
  const int64_t multiple = config.integer({"block_multiple_of"}, 256, {1, 1 << 20});
  const double factor = config.number({"block_ffn_dim_multiplier"}, 1.0);
  if (!(factor > 0 && factor < 1e3)) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"block_ffn_dim_multiplier\" is {}, expected a number above 0 and below 1000",
         config.path(), factor);
  }
  const int64_t two_thirds = 2 * stated / 3;
  const auto width = static_cast<int64_t>(factor * static_cast<double>(two_thirds));
  return round_up(width, multiple).value();
}

/// Models without attention state no heads.
int64_t stated_heads(const ConfigView& config, const Family& family) {
  const bool none = family.mixer == Mixer::mamba1_alone || family.mixer == Mixer::mamba2_alone;
  if (none) return 1;
  if (family.mixer == Mixer::crossed)
    return config.required({"decoder_attention_heads"}, kHeadCount);
  return config.required({"num_attention_heads", "n_head", "n_heads"}, kHeadCount);
}

}  // namespace

TextDims read_dims(const ConfigView& config, const Family& family) {
  TextDims dims;
  const auto listed = static_cast<int64_t>(config.texts({"layers_block_type"}).size());
  const bool crossed = family.mixer == Mixer::crossed;  // other keys name the encoder's sizes
  dims.layers = crossed ? config.required({"decoder_layers"}, kLayerCount)
                : listed > 0
                    ? config.integer({"num_hidden_layers"}, listed, kLayerCount)
                    : config.required({"num_hidden_layers", "n_layer", "num_layers", "n_layers"},
                                      kLayerCount);
  dims.hidden = config.required({"n_embed", "hidden_size", "n_embd", "d_model"});
  dims.heads = stated_heads(config, family);
  dims.vocabulary = config.required({"padded_vocab_size", "vocab_size"});
  dims.kv_heads = config.integer(
      {"num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups"},
      config.child({"attn_config"}).integer({"kv_n_heads"}, dims.heads, kHeadCount), kHeadCount);
  if (family.mixer == Mixer::mamba1_alone || family.mixer == Mixer::mamba2_alone) dims.kv_heads = 1;
  if (config.flag({"multi_query_attention"}, false)) {
    dims.kv_heads = config.integer({"multi_query_group_num"}, 1, kHeadCount);
  } else if (config.flag({"multi_query"}, false) &&
             !config.flag({"new_decoder_architecture"}, false)) {
    dims.kv_heads = 1;
  }
  dims.head_size = config.integer({"head_dim", "kv_channels", "attention_head_dim"}, 0);
  if (dims.head_size == 0 && config.has("kv_lora_rank")) {
    dims.head_size = config.integer({"v_head_dim"}, 128, {1, 1 << 20});
  }
  if (dims.head_size == 0) {
    if (dims.hidden % dims.heads != 0) {
      fail(ExitCode::checkpoint_unusable,
           "{}: \"hidden_size\" {} is not a multiple of \"num_attention_heads\" {}, and "
           "\"head_dim\" "
           "is not given",
           config.path(), dims.hidden, dims.heads);
    }
    dims.head_size = dims.hidden / dims.heads;
  }
  if (dims.heads % dims.kv_heads != 0) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"num_attention_heads\" {} is not a multiple of \"num_key_value_heads\" {}",
         config.path(), dims.heads, dims.kv_heads);
  }
  const std::vector<int64_t> widths = config.integers(
      {"intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "block_ff_dim"});
  dims.intermediate = !widths.empty() ? widths.front() : (family.gated ? 0 : 4 * dims.hidden);
  dims.intermediate = adjusted_intermediate(config, dims.intermediate);
  if (dims.intermediate < 0 || dims.intermediate > int64_t{1} << 31) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"intermediate_size\" is {}, expected a positive integer", config.path(),
         dims.intermediate);
  }
  if (crossed) dims.intermediate = config.required({"decoder_ffn_dim"});
  if (family.both_widths) dims.intermediate /= 2;
  if (family.usual_width) dims.intermediate = 4 * dims.hidden;
  dims.positions = config.integer(
      {"max_position_embeddings", "n_positions", "seq_length", "n_ctx", "max_seq_len",
       "max_seq_length", "model_max_length", "max_position_embedding", "max_target_positions"},
      0);
  dims.tied = family.whole_embedding ||
              config.flag({"tie_word_embeddings", "tie_embedding_weights"}, family.tied);
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
  if (first || build.family.stages != Stages::divided) add_embedding(build);
  for (int64_t layer = layers.first; layer < layers.end; ++layer) add_layer(build, layer);
  add_output(build, last);
  add_mask(build);
}

}  // namespace plimsoll::plan
