// Memory beside the weight table of a described model: caches, rotary tables, scales, and sizes for
// the activation model.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "model/vllm/classes.h"
#include "vllm/shapes/described/described_model.h"

namespace plimsoll::vllm {
namespace {

using model::AttentionSpec;
using model::LayerSpec;
using model::MlpKind;
using model::MlpSpec;
using model::ModelSpec;

constexpr int64_t kIndexBytes = 4;  // of the number of a key

/// vLLM's Qwen2 has windows in all layers or in none.
void check_windows(const ModelSpec& spec, const ConfigView& config) {
  if (spec.vllm.windows_from == 0) return;
  fail(ExitCode::usage,
       "{}: Sliding window for some but all layers is not supported. This model uses sliding "
       "window but `max_window_layers` = {} is less than `num_hidden_layers` = {}.",
       config.path(), spec.vllm.windows_from, spec.layers.size());
}

/// True when layers differ in the size of their heads.
bool has_unlike_heads(const ModelSpec& spec) {
  int64_t size = 0;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.has_attention()) continue;
    if (size != 0 && size != layer.attention.head_dim) return true;
    size = layer.attention.head_dim;
  }
  return false;
}

class Layers {
 public:
  Layers(const ModelSpec& spec, Builder& build)
      : spec_(spec), build_(build), weights_(build.weights), shape_(build.shape) {}

  void add(const LayerSpec& layer) {
    if (layer.ngrams) add_ngrams(spec_, *layer.ngrams, &layer - spec_.layers.data(), build_);
    if (layer.has_attention()) add_attention(layer.attention);
    const bool beside = layer.has_attention() && !layer.shared_block;
    if (layer.recurrent) add_mixer(*layer.recurrent, beside);
    if (layer.crossed) add_crossed(*layer.crossed);
    if (layer.shortcut) add_mlp(*layer.shortcut);
    add_mlp(layer.mlp);
    if (layer.shared_block) add_mlp(layer.shared_block->mlp);
    // A scalar of the layer's experts, and one of its several residuals.
    const bool scaled = layer.mlp.router.expert_scale != model::kNoWeight;
    if (scaled) weights_.buffer(weights_.element());
    if (layer.streams) weights_.buffer(weights_.element());
  }

  /// Scalars and masks beside the embeddings.
  void add_embedding() {
    const model::VllmClass& vllm = spec_.vllm;
    if (vllm.has_normalizer || vllm.scalar_scale) weights_.buffer(weights_.element());
  }

  void add_layer_inputs() {
    if (spec_.layer_inputs.width > 0) weights_.buffer(Amount{3} * weights_.element());
  }

  /// Counts the buffers that transformers' model has beside its layers, on every stage: frequencies
  /// where all layers have the same, and a causal mask of bytes.
  void add_generic() {
    if (!generic_) return;
    if (spec_.ropes.size() == 1) add_frequencies(0);
    if (spec_.position_embedding == model::kNoWeight) return;
    const Amount rows = spec_.weight(spec_.position_embedding).rows();
    weights_.buffer(rows * rows);
  }

 private:
  void add_mixer(const model::RecurrentSpec& mixer, bool beside_attention) {
    if (mixer.rope >= 0) {
      weights_.rotary(
          table_of(spec_.ropes[static_cast<size_t>(mixer.rope)], model::RopePairs::halves));
    }
    add_state(spec_, mixer, beside_attention, build_);
  }

  void add_attention(const AttentionSpec& attention) {
    const bool latent = attention.latent.kv_rank > 0 && !spec_.vllm.expands_latents;
    constexpr int64_t kFlashInferHeads[] = {64, 128, 256, 512};
    shape_.flashinfer &=
        attention.sinks == model::kNoWeight &&
        std::ranges::find(kFlashInferHeads, attention.head_dim) != std::end(kFlashInferHeads);
    static_cast<void>(weights_.share(attention.heads, "the number of attention heads"));
    if (spec_.vllm.kv_head_for_ranks) {
      static_cast<void>(weights_.share(attention.kv_heads, "the number of key-value heads"));
    }
    if (attention.compression > 0) {
      add_rotary(spec_.ropes[static_cast<size_t>(attention.rope)], attention, false);
      constexpr int64_t kUsualChoice = 512;
      shape_.choice.token_bytes =
          Amount{build_.config.integer({"index_topk"}, kUsualChoice)} * kIndexBytes;
      note_compressed_sizes(attention);
      return add_compressed_caches(attention, build_);
    }
    if (attention.keys_of < 0 && !shape_.encoder) add_cache(attention, latent);
    if (latent) add_latent(attention);
    constexpr int64_t kLargestCommonHead = 256;
    if (unlike_heads_ && attention.head_dim > kLargestCommonHead) {
      shape_.kernel = AttentionKernel::large_head_flash;
    }
    const size_t rope = attention.rope < 0 ? 0 : static_cast<size_t>(attention.rope);
    const bool rotates = attention.rope >= 0 || (spec_.vllm.rotary_in_all && !spec_.ropes.empty());
    if (rotates && generic_) add_frequencies(rope);
    if (rotates && !generic_) add_rotary(spec_.ropes[rope], attention, latent);
    if (spec_.vllm.idle_scales) {
      weights_.attention_buffers();
    } else {
      weights_.attention_scales(latent);
    }
  }

  /// Adds keys and values of an encoder's output.
  void add_crossed(const AttentionSpec& attention) {
    const int64_t own = weights_.kv_heads(attention.kv_heads), size = attention.head_dim;
    if (!build_.options.first_engine)
      shape_.kv_layers.push_back(attention_cache(build_, own, size, size, 0, KvKind::crossed));
    shape_.encoder_decoder = true;
    weights_.attention_scales();
  }

  void add_cache(const AttentionSpec& attention, bool latent) {
    const int64_t index = attention.indexer.chooses() ? attention.indexer.head_dim : 0;
    const model::IndexerSpec& indexer = attention.indexer;
    if (indexer.most > 0) note_choice(indexer, latent);
    const bool pools = indexer.chooses() && indexer.pool > 1;
    const Amount plain_keys = Amount{index} * build_.options.element;
    if (latent && index > 0) {
      constexpr int64_t kScaledGroup = 128;  // fp8 keys, a float32 scale for each 128 elements
      shape_.kv_layers.push_back(
          index_cache(index + index / kScaledGroup * kFloat32, indexer.pool));
      if (pools) fit_kernel_blocks(indexer.pool);
      if (pools) add_ring(indexer);
    }
    if (!latent && pools) {
      add_ring(indexer);
      shape_.kv_layers.push_back(index_cache(plain_keys, indexer.pool));
    }
    if (latent) {
      note_latent_sizes(attention);
      return add_latent_cache(build_, attention.latent, indexer.most > 0);
    }
    const int64_t own = weights_.kv_heads(attention.kv_heads);
    const int64_t values = attention.value_dim > 0 && !spec_.vllm.expands_latents
                               ? attention.value_dim
                               : attention.head_dim;
    KvKind kind = KvKind::full;
    int64_t window = attention.window;
    if (window > 0) {
      const bool slides = attention.window_kind == model::WindowKind::sliding;
      kind = slides ? KvKind::sliding : KvKind::chunked;
      if (spec_.vllm.own_besides_window) ++window;
    }
    KvLayer cache = attention_cache(build_, own, attention.head_dim, values, window, kind);
    if (recurrent_) shape_.attention_token_bytes = cache.token_bytes;
    shape_.kv_layers.push_back(std::move(cache));
    if (index > 0 && !pools) {
      shape_.kv_layers.push_back(index_cache(plain_keys, 1));
      note_chosen_blocks();
    }
  }

  void note_latent_sizes(const AttentionSpec& attention) {
    const model::LatentSpec& latent = attention.latent;
    AttentionSizes& sizes = shape_.attention;
    sizes.heads = attention.heads / weights_.ranks();
    sizes.query = latent.unrotated + latent.rotated;
    sizes.value = attention.value_dim;
    sizes.expanded = latent.unrotated + attention.value_dim;
    sizes.latent = latent.kv_rank;
    sizes.row = latent.kv_rank + latent.rotated;
    note_index_keys(attention.indexer, attention.indexer.pool);
  }

  void note_compressed_sizes(const AttentionSpec& attention) {
    AttentionSizes& sizes = shape_.attention;
    sizes.heads = attention.heads / weights_.ranks();
    sizes.query = sizes.value = sizes.latent = sizes.row = attention.head_dim;
    sizes.window = attention.window;
    const int64_t ratio = attention.compression;
    const bool finest = sizes.compression == 0 || ratio < sizes.compression;
    if (ratio > 1 && finest) sizes.compression = ratio;
    note_index_keys(attention.indexer, ratio);
    const int64_t streams = spec_.vllm.predicted_streams;
    if (build_.options.version < spec_.vllm.keeps_streams_before)
      shape_.draft.handed = Amount{streams} * build_.dims.hidden;
  }

  void note_index_keys(const model::IndexerSpec& indexer, int64_t pool) {
    if (!indexer.chooses()) return;
    shape_.attention.index_key = indexer.head_dim;
    shape_.attention.pool = pool;
    shape_.attention.chosen = (shape_.choice.token_bytes / kIndexBytes).value();
  }

  /// Blocks for kernels that read 32 or 64 pooled keys at once, on consumers' Blackwell 64 alone
  /// (vllm/v1/attention/backends/mla/indexer.py: get_paged_mqa_page_sizes).
  void fit_kernel_blocks(int64_t pool) {
    constexpr int64_t kLargest = 64, kSmallest = 32;
    constexpr model::VllmVersion kKernelBlocks{0, 32, 0};
    const bool large = build_.options.card == hardware::Architecture::consumer_blackwell;
    shape_.block_multiple = pool * (large ? kLargest : kSmallest);
    if (build_.options.version >= kKernelBlocks) {
      shape_.kv_layers.back().kernel_block = pool * kLargest;
    }
  }

  /// What is kept of tokens that are still to be pooled (vllm/models/glm5next/common/attention.py,
  /// qwen4_exp/common/qsa_cache.py).
  void add_ring(const model::IndexerSpec& indexer) {
    constexpr int64_t kBfloat16 = 2;
    KvLayer ring;
    ring.kind = KvKind::ring;
    ring.token_bytes = Amount{indexer.ring} * kBfloat16;
    ring.fixed_block = ring_tokens(indexer.pool);
    shape_.kv_layers.push_back(std::move(ring));
    shape_.packs_pages = true;
  }

  /// Tokens of a ring: those of a pool, and those of a step that may be rejected, in whole pools,
  /// whose number is a power of 2 in GLM-5.3-Flash.
  [[nodiscard]] int64_t ring_tokens(int64_t pool) const {
    constexpr model::VllmVersion kDraftsInRing{0, 31, 0};  // of GLM-5.3-Flash
    const bool latent = spec_.vllm.copies_whole_steps;
    if (latent && build_.options.version < kDraftsInRing) return pool;
    const auto pools = static_cast<uint64_t>(1 + (build_.options.draft_tokens + pool - 1) / pool);
    return pool * static_cast<int64_t>(latent ? std::bit_ceil(pools) : pools);
  }

  /// Indices of the keys that are chosen for each token of a step: of latents in one buffer for all
  /// layers, and in a copy for the layers that share a choice; else in one buffer for each layer.
  void note_choice(const model::IndexerSpec& indexer, bool latent) {
    constexpr int64_t kTile = 128;
    ChoiceBuffers& choice = shape_.choice;
    const int64_t spare = indexer.pool > 1 ? indexer.pool - 1 : 0;  // not yet pooled
    if (!latent) {
      choice.token_bytes += (Amount{indexer.most} + spare + 1) * kIndexBytes;  // and their count
      return;
    }
    const Amount width =
        spare > 0 ? padded_to(Amount{indexer.most} + spare, kTile) : Amount{indexer.most};
    choice.token_bytes = width * kIndexBytes;
    choice.row_bytes = (width + 1) * kIndexBytes;  // and their count
    choice.whole_steps = spec_.vllm.copies_whole_steps;
    if (indexer.chooses() || choice.whole_steps || choice.copies == 0) ++choice.copies;
  }

  /// Indices of the blocks of keys that are chosen, in one buffer for all layers
  /// (vllm/models/minimax_m3/nvidia/model.py).
  void note_chosen_blocks() {
    const ConfigView sparse = build_.config.child({"sparse_attention_config"});
    const int64_t heads = sparse.integer({"sparse_num_index_heads"}, 0) / weights_.ranks();
    shape_.choice.token_bytes = Amount{sparse.integer({"sparse_topk_blocks"}, 0)} *
                                std::max<int64_t>(1, heads) * kIndexBytes;
  }

  void add_latent(const AttentionSpec& attention) {
    const model::LatentSpec& latent = attention.latent;
    if (spec_.vllm.unit_scale) {  // of fp8 prefill
      weights_.buffer(kFloat32);
      return;
    }
    // The products with keys and values are kept in 16 bits beside the weight they come from.
    shape_.after_loading_bytes += Amount{attention.heads / weights_.ranks()} *
                                  (latent.unrotated + attention.value_dim) * latent.kv_rank *
                                  build_.options.element;
  }

  [[nodiscard]] RotaryTable table_of(const model::RopeSpec& rope, model::RopePairs pairs) const {
    const model::RotaryRows& rows = rope.vllm;
    return {.positions = table_rows(build_, rows, rows.in_sections),
            .dimensions = rope.rotary_dim,
            .element = spec_.vllm.float_rotary ? kFloat32 : weights_.element(),
            .key = fmt::format("{}/{}/{}", rows.kind, rows.theta, static_cast<int>(pairs))};
  }

  void add_rotary(const model::RopeSpec& rope, const AttentionSpec& attention, bool latent) {
    RotaryTable table = table_of(rope, attention.rope_pairs);
    if (latent && has_float_table(build_, rope.vllm.kind)) table.element = kFloat32;
    if (spec_.vllm.rotary_in_each) {
      const Amount rows = table_rows(build_, rope.vllm, true);
      return weights_.buffer(rows * table.dimensions * table.element);
    }
    weights_.rotary(table);
    // An indexer that rotates halves where the attention rotates pairs has its own.
    if (attention.indexer.most > 0 && attention.indexer.rope_pairs != attention.rope_pairs &&
        has_indexer_table(build_)) {
      table.key += "/indexer";
      weights_.rotary(table);
    }
  }

  /// transformers keeps inverse frequencies in float32, twice, and no table.
  void add_frequencies(size_t rope) {
    weights_.rotary({1, spec_.ropes[rope].rotary_dim / 2 * 2, kFloat32, fmt::format("{}", rope)});
  }

  void widen(int64_t width) {
    shape_.activation.intermediate = std::max(shape_.activation.intermediate, width);
  }

  void add_mlp(const MlpSpec& mlp) {
    if (mlp.kind == MlpKind::experts) {
      shape_.mixture = true;
      shape_.activation.expert_intermediate = mlp.intermediate;
      shape_.activation.experts_per_token = mlp.experts_per_token;
      if (mlp.up.bias != model::kNoWeight) shape_.activation.triton_experts = false;  // gpt-oss
      // An MLP beside the experts, not one of them (Gemma 4).
      if (mlp.shared.out_norm.present) widen(mlp.shared.intermediate / weights_.ranks());
    }
    if (mlp.kind != MlpKind::plain && mlp.kind != MlpKind::gated) return;
    const bool whole = spec_.weight(mlp.up.weight).split == model::Split::replicated;
    widen(whole ? mlp.intermediate : mlp.intermediate / weights_.ranks());
  }

  const ModelSpec& spec_;
  Builder& build_;
  RankWeights& weights_;
  ModelShape& shape_;
  const bool recurrent_ = spec_.is_recurrent();
  const bool unlike_heads_ = has_unlike_heads(spec_);
  const bool generic_ = runs_transformers(spec_, build_);
};

/// The first engine lays out a cache for each layer that the config counts: of a model with encoder
/// and decoder, the encoder's (vllm/worker/cache_engine.py).
void lay_out_counted(Builder& build) {
  std::vector<KvLayer>& caches = build.shape.kv_layers;
  const auto counted = static_cast<size_t>(
      build.config.integer({"num_hidden_layers", "encoder_layers"}, 0, {0, 1 << 12}));
  while (!caches.empty() && caches.size() < counted) caches.push_back(KvLayer(caches.back()));
}

}  // namespace

bool runs_transformers(const ModelSpec& spec, const Builder& build) {
  if (!spec.vllm.generic) return false;
  const auto known = model::find_class(build.shape.architecture);
  return !known || !known->wrapped || build.options.version >= *known->wrapped;
}

TextDims dims_of(const ModelSpec& spec) {
  TextDims dims;
  dims.layers = static_cast<int64_t>(spec.layers.size()) / spec.layers_in_stored;
  dims.hidden = spec.hidden_size;
  dims.vocabulary = spec.vocab_size;
  dims.positions = spec.max_position;
  dims.tied = spec.head == spec.embedding;
  const auto dense = std::ranges::find_if(spec.layers, [](const LayerSpec& layer) {
    return layer.mlp.kind == MlpKind::plain || layer.mlp.kind == MlpKind::gated;
  });
  if (dense != spec.layers.end()) dims.intermediate = dense->mlp.intermediate;
  for (const LayerSpec& layer : spec.layers) {
    if (!layer.has_attention()) continue;
    dims.heads = layer.attention.heads;
    dims.kv_heads = layer.attention.kv_heads;
    dims.head_size = layer.attention.head_dim;
    break;
  }
  return dims;
}

void add_layers(const DescribedModel& model, const model::StageOfMany& stage, Builder& build) {
  const ModelSpec& spec = model.spec;
  check_windows(spec, build.config);
  Layers layers(spec, build);
  if (model.places.holds(spec.embedding, stage)) layers.add_embedding();
  if (stage.first) layers.add_layer_inputs();
  const int64_t each = spec.layers_in_stored;
  build.shape.lacks_mixture = spec.vllm.experts_in_stages;
  for (int64_t i = stage.layers.first * each; i < stage.layers.end * each; ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    layers.add(layer);
    if (layer.has_experts()) build.shape.lacks_mixture = false;
  }
  layers.add_generic();
  if (build.options.first_engine && build.shape.encoder_decoder) lay_out_counted(build);
}

}  // namespace plimsoll::vllm
