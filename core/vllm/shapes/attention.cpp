// Multi-head and grouped-query attention.
#include <optional>

#include "base/json.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

constexpr model::VllmVersion kUnevenTypes{0, 32, 0};

}  // namespace

KvLayer attention_cache(const Builder& build, int64_t kv_heads, int64_t key_size,
                        int64_t value_size, int64_t window, KvKind kind) {
  KvLayer cache;
  cache.kind = kind;
  cache.window = window;
  // MiMo V2's class, whose values are smaller than its keys, told its layers no type of cache.
  const bool whole = key_size != value_size && build.options.version < kUnevenTypes;
  const int64_t element = whole ? build.options.element : build.kv_element();
  cache.token_bytes = Amount{kv_heads} * (key_size + value_size) * element;
  return cache;
}

void add_latent_cache(Builder& build, int64_t elements, bool sparse) {
  ModelShape& shape = build.shape;
  const LatentBackend backend =
      latent_backend({build.options.version, build.options.card, build.options.cache}, sparse);
  if (sparse || shape.kernel != AttentionKernel::sparse_mla) {
    shape.kernel = sparse ? AttentionKernel::sparse_mla : AttentionKernel::mla;
    shape.latent = backend;
  }
  KvLayer cache;
  cache.kind = KvKind::latent;
  cache.token_bytes =
      backend.packed ? Amount{kPackedLatent} : Amount{elements} * build.kv_element();
  shape.attention_token_bytes = cache.token_bytes;
  shape.kv_layers.push_back(cache);
}

KvLayer index_cache(Amount token_bytes) {
  KvLayer cache;
  cache.kind = KvKind::latent;
  cache.token_bytes = token_bytes;
  cache.kernel = "indexer";
  return cache;
}

namespace {

/// Heads as one layer has them: Step 3.5 varies them by kind of layer.
struct LayerHeads {
  int64_t heads;
  int64_t kv_heads;
  int64_t key_size;
  int64_t value_size;
  bool bias;
};

LayerHeads heads_of(const Builder& build, int64_t layer) {
  const TextDims& dims = build.dims;
  const ConfigView& config = build.config;
  LayerHeads heads{dims.heads, dims.kv_heads, dims.head_size, dims.head_size,
                   build.bias(build.family.qkv_bias)};
  // Ling's switch for all biases outweighs the one for q, k and v.
  if (build.family.experts == Experts::bailing) heads.bias |= config.flag({"use_bias"}, false);
  heads.value_size = config.integer({"v_head_dim"}, heads.key_size);
  if (heads.value_size == 0) heads.value_size = heads.key_size;
  const ConfigView other = config.child({"attention_other_setting"});  // Step 3.5
  if (other.has("attention_type") &&
      build.layer_type(layer) == other.text({"attention_type"}, "")) {
    heads.heads = other.required({"num_attention_heads"}, {1, 1 << 20});
    heads.kv_heads = other.required({"num_attention_groups"}, {1, 1 << 20});
    heads.key_size = heads.value_size = other.required({"head_dim"}, {1, 1 << 20});
  }
  return heads;
}

void add_qk_norm(const Builder& build, const LayerHeads& heads) {
  const Family& family = build.family;
  QkNorm kind = family.qk_norm;
  if (family.qk_norm_key != nullptr && !build.config.flag({family.qk_norm_key}, false)) {
    kind = QkNorm::none;
  }
  if (kind == QkNorm::head && build.config.text({"qk_norm_type"}, "") == "olmo")  // Molmo 2
    kind = QkNorm::whole;
  RankWeights& weights = build.weights;
  switch (kind) {
    case QkNorm::none:
      return;
    case QkNorm::head:
      weights.plain(Part::attention, 2 * heads.key_size);
      return;
    case QkNorm::whole:
      weights.plain(Part::attention, (heads.heads + heads.kv_heads) * heads.key_size);
      return;
  }
}

/// Gates of the attention's output (Laguna: one for each head; Muse: one for each element).
void add_output_gate(const Builder& build, const LayerHeads& heads, const std::string& path) {
  const ConfigView& config = build.config;
  const int64_t hidden = build.dims.hidden;
  if (config.flag({"use_head_wise_attn_gate"}, false)) {
    build.weights.linear(Part::attention, {{path, "g_proj", {}}, hidden, {heads.heads}});
  }
  if (build.family.output_gate) {
    build.weights.linear(Part::attention,
                         {{path, "output_gate_proj", {}}, hidden, {heads.heads * heads.key_size}});
  }
}

/// Adds a layer's index that chooses blocks of keys: for each KV head queries of the index, whose
/// one key is cached.
void add_block_index(Builder& build, int64_t layer, const std::string& path, int64_t kv_heads) {
  const ConfigView sparse = build.config.child({"sparse_attention_config"});
  const std::vector<int64_t> layers = sparse.integers({"sparse_attention_freq"});
  const auto i = static_cast<size_t>(layer);
  if (!build.family.block_index || i >= layers.size() || layers[i] == 0) return;
  const int64_t size = sparse.required({"sparse_index_dim"}, {1, 1 << 20});
  build.weights.linear(Part::attention, {{path, "qkv_proj", {"index_q_proj", "index_k_proj"}},
                                         build.dims.hidden,
                                         {kv_heads * size, size},
                                         Split::none});
  build.weights.plain(Part::attention, 2 * size);  // norms
  build.shape.kv_layers.push_back(index_cache(Amount{size} * build.options.element));
}

}  // namespace

void add_attention(Builder& build, int64_t layer) {
  const Window window = layer_window(build, layer);
  const LayerHeads heads = heads_of(build, layer);
  const std::string path = build.layer_path(layer) + ".self_attn";
  RankWeights& weights = build.weights;
  static_cast<void>(weights.share(heads.heads, "the number of attention heads"));
  const int64_t own_kv_heads = weights.kv_heads(heads.kv_heads);
  RankWeights::Qkv qkv{path,           build.dims.hidden, heads.heads, heads.kv_heads,
                       heads.key_size, heads.value_size,  heads.bias};
  weights.qkv(Part::attention, qkv);
  add_output_gate(build, heads, path);
  weights.linear(Part::attention, {{path, "o_proj", {}},
                                   heads.heads * heads.value_size,
                                   {build.dims.hidden},
                                   Split::inputs,
                                   build.bias(build.family.out_bias)});
  add_qk_norm(build, heads);
  if (build.family.positions == Positions::rotary) {
    const bool sliding = window.kind == KvKind::sliding;
    if (sliding || !build.family.positions_in_windows)
      add_rotary(build, heads.key_size, sliding ? "sliding_attention" : "full_attention");
  }
  if (build.family.stored_scales) {
    weights.attention_scales();
  } else {
    weights.attention_buffers();
  }
  if (build.family.pooling) return;  // an encoder keeps nothing
  build.shape.kv_layers.push_back(attention_cache(build, own_kv_heads, heads.key_size,
                                                  heads.value_size, window.tokens, window.kind));
  add_block_index(build, layer, path, own_kv_heads);
}

}  // namespace plimsoll::vllm
