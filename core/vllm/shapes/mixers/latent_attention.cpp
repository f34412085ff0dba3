// Multi-head latent attention (DeepSeek-V2, section 2.1): one compressed vector per token is
// cached, whatever the tensor-parallel size; and DeepSeek-V3.2's indexer, which caches keys of its
// own.
#include <algorithm>

#include "base/error.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

struct LatentDims {
  int64_t query_rank;  // 0: queries are projected directly
  int64_t rank;        // of keys and values
  int64_t nope;        // part of a head without positions
  int64_t rope;
  int64_t value;
};

LatentDims latent_dims(const ConfigView& config) {
  return {config.integer({"q_lora_rank"}, 0), config.required({"kv_lora_rank"}),
          config.required({"qk_nope_head_dim"}), config.integer({"qk_rope_head_dim"}, 64),
          config.required({"v_head_dim"})};
}

/// True for layers that choose keys: all where the model has an index, but HY V4's config lists
/// them.
bool is_sparse(const Builder& build, int64_t layer) {
  if (!build.config.has("index_topk")) return false;
  if (build.family.mixer != Mixer::gated_latent) return true;
  const std::string type = build.layer_type(layer);
  return type.find("sparse") != std::string::npos || type == "indexed_attention";
}

/// Some layers of GLM-5.2 and HY V4 use the indices that an earlier layer found.
bool has_indexer(const Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  if (!is_sparse(build, layer)) return false;
  const std::vector<std::string> types = config.texts({"indexer_types"});
  if (!types.empty() && build.family.mixer == Mixer::gated_latent) {
    return static_cast<size_t>(layer) >= types.size() ||
           types[static_cast<size_t>(layer)] == "full";
  }
  if (config.has("index_topk_pattern")) {
    const std::string pattern = config.text({"index_topk_pattern"}, "");
    const auto i = static_cast<size_t>(layer);
    return i >= pattern.size() || pattern[i] != 'S';
  }
  const int64_t frequency = config.integer({"index_topk_freq"}, 1, {1, 1 << 20});
  const int64_t offset = config.integer({"index_skip_topk_offset"}, 2);
  return std::max<int64_t>(layer - offset + 1, 0) % frequency == 0;
}

void add_indexer(Builder& build, const std::string& path, const LatentDims& dims) {
  const ConfigView& config = build.config;
  const int64_t heads = config.integer({"index_n_heads"}, 64, {1, 1 << 20});
  const int64_t size = config.integer({"index_head_dim"}, 128, {1, 1 << 20});
  RankWeights& weights = build.weights;
  weights.linear(Part::attention,
                 {{path, "wq_b", {}}, dims.query_rank, {size * heads}, Split::none});
  weights.linear(
      Part::attention,
      {{path, "wk_weights_proj", {}}, build.dims.hidden, {size, heads}, Split::none, false, false});
  weights.parameters(Part::attention, Amount{2} * size * kFloat32);  // k_norm, gain and bias
  constexpr int64_t kScaledGroup = 128;  // fp8 keys, a float32 scale for each 128 elements
  build.shape.kv_layers.push_back(index_cache(size + size / kScaledGroup * kFloat32));
}

void add_latent_rotary(Builder& build, const LatentDims& dims, bool indexed) {
  RotaryTable table = rotary_table(build, dims.rope, "");
  table.dimensions = dims.rope;
  if (has_float_table(build, table.key)) table.element = kFloat32;
  build.weights.rotary(table);
  // The indexer rotates halves where the attention rotates pairs, unless the config states
  // otherwise.
  if (indexed && has_indexer_table(build) && !build.family.paired_indexer &&
      !build.config.flag({"indexer_rope_interleave"}, false)) {
    table.key += "/indexer";
    build.weights.rotary(table);
  }
}

}  // namespace

void add_latent_attention(Builder& build, int64_t layer) {
  const LatentDims dims = latent_dims(build.config);
  const std::string path = build.layer_path(layer) + ".self_attn";
  const int64_t heads = build.dims.heads;
  const int64_t query = heads * (dims.nope + dims.rope);
  const int64_t hidden = build.dims.hidden;
  const int64_t compressed = dims.rank + dims.rope;
  RankWeights& weights = build.weights;
  const bool bias = build.bias(build.family.qkv_bias);
  static_cast<void>(weights.share(heads, "the number of attention heads"));
  if (dims.query_rank > 0) {
    weights.linear(Part::attention, {{path, "fused_qkv_a_proj", {"q_a_proj", "kv_a_proj_with_mqa"}},
                                     hidden,
                                     {dims.query_rank, compressed},
                                     Split::none,
                                     bias});
    weights.plain(Part::attention, dims.query_rank);
    weights.linear(Part::attention, {{path, "q_b_proj", {}}, dims.query_rank, {query}});
  } else {
    weights.linear(Part::attention, {{path, "q_proj", {}}, hidden, {query}});
    weights.linear(Part::attention,
                   {{path, "kv_a_proj_with_mqa", {}}, hidden, {compressed}, Split::none, bias});
  }
  weights.plain(Part::attention, dims.rank);
  weights.linear(Part::attention,
                 {{path, "kv_b_proj", {}}, dims.rank, {heads * (dims.nope + dims.value)}});
  weights.linear(Part::attention,
                 {{path, "o_proj", {}}, heads * dims.value, {hidden}, Split::inputs, bias});
  // The products with keys and values are kept in 16 bits beside the weight they come from.
  build.shape.after_loading_bytes += Amount{heads / weights.ranks()} * (dims.nope + dims.value) *
                                     dims.rank * build.options.element;
  const bool sparse = is_sparse(build, layer);
  if (has_indexer(build, layer)) add_indexer(build, path + ".indexer", dims);
  add_latent_rotary(build, dims, sparse);
  weights.attention_scales(true);
  add_latent_cache(build, compressed, sparse);
}

}  // namespace plimsoll::vllm
