// DeepSeek-V4: keys and values of the distant past are compressed 4 or 128 to one, the near past is
// kept in a window, and residual streams are mixed by hyper-connections.
#include "base/error.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

constexpr int64_t kAlignment = 576;  // pages of the fp8 cache
constexpr model::VllmVersion kSchemesByOwnNames{0, 32, 0};
constexpr Bounds kIndexSize{1, 1 << 24};

KvLayer latent_page(KvKind kind, Amount token_bytes, int64_t compression) {
  KvLayer cache;
  cache.kind = kind;
  cache.token_bytes = token_bytes;
  cache.compression = compression;
  cache.alignment = kAlignment;
  return cache;
}

/// Counts a compressor: a projection, positions, and a window of partial sums in float32.
void add_compressor(Builder& build, int64_t ratio, int64_t head_size) {
  const int64_t overlap = ratio == 4 ? 2 : 1;
  const int64_t width = overlap * head_size;
  RankWeights& weights = build.weights;
  weights.parameters(Part::attention, Amount{ratio} * width * kFloat32);
  weights.plain(Part::attention, Amount{2} * width * build.dims.hidden + head_size);
  KvLayer state = latent_page(KvKind::sliding_latent, Amount{2} * width * kFloat32, 1);
  state.window = overlap * ratio;
  state.fixed_block = ratio == 4 ? 4 : 8;
  build.shape.kv_layers.push_back(state);
}

void add_indexer(Builder& build, const std::string& path, int64_t query_rank, int64_t ratio) {
  const int64_t heads = build.config.integer({"index_n_heads"}, 64, kIndexSize);
  const int64_t size = build.config.integer({"index_head_dim"}, 128, kIndexSize);
  RankWeights& weights = build.weights;
  weights.linear(Part::attention, {{path, "wq_b", {}}, query_rank, {heads * size}, Split::none});
  weights.plain(Part::attention, Amount{heads} * build.dims.hidden);
  const Amount entry = size + size / 128 * kFloat32;  // fp8 keys with a float32 scale
  build.shape.kv_layers.push_back(latent_page(KvKind::latent, entry, ratio));
  add_compressor(build, ratio, size);
}

void add_compressed_attention(Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  const std::string path = build.layer_path(layer) + ".attn";
  const int64_t heads = build.dims.heads;
  const int64_t size = build.dims.head_size;
  const int64_t hidden = build.dims.hidden;
  const int64_t query_rank = config.required({"q_lora_rank"});
  const int64_t output_rank = config.required({"o_lora_rank"});
  const int64_t groups = config.integer({"o_groups"}, 8, kIndexSize);
  const std::vector<int64_t> ratios = config.integers({"compress_ratios"});
  const auto i = static_cast<size_t>(layer);
  const int64_t ratio = i < ratios.size() ? std::max<int64_t>(1, ratios[i]) : 1;
  if (ratio != 1 && ratio != 4 && ratio != 128) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"compress_ratios\" has {} for layer {}, expected 0, 4 or 128", config.path(), ratio,
         layer);
  }
  RankWeights& weights = build.weights;
  const int64_t own = weights.share(heads, "the number of attention heads");
  weights.parameters(Part::attention, Amount{own <= 64 ? 64 : 128} * kFloat32);  // sinks, padded
  weights.linear(
      Part::attention,
      {{path, "fused_wqa_wkv", {"wq_a", "wkv"}}, hidden, {query_rank, size}, Split::none});
  weights.plain(Part::attention, query_rank + size);
  weights.linear(Part::attention, {{path, "wq_b", {}}, query_rank, {heads * size}});
  weights.linear(Part::attention,
                 {{path, "wo_a", {}}, heads * size / groups, {groups * output_rank}});
  weights.linear(Part::attention,
                 {{path, "wo_b", {}}, groups * output_rank, {hidden}, Split::inputs});
  RotaryTable table = rotary_table(build, config.integer({"qk_rope_head_dim"}, 64), "");
  table.dimensions = config.integer({"qk_rope_head_dim"}, 64);
  table.element = kFloat32;
  table.key = ratio > 1 ? "compressed" : "window";
  weights.rotary(table);
  if (ratio == 4) add_indexer(build, path + ".indexer", query_rank, ratio);
  // 448 fp8 elements, 64 16-bit ones with positions, 8 bytes of scales.
  constexpr int64_t kEntry = 584;
  KvLayer window = latent_page(KvKind::sliding_latent, kEntry, 1);
  window.window = config.integer({"sliding_window"}, 128);
  window.fixed_block = 64;
  build.shape.kv_layers.push_back(window);
  if (ratio > 1) {
    build.shape.kv_layers.push_back(latent_page(KvKind::latent, kEntry, ratio));
    add_compressor(build, ratio, size);
  }
  build.shape.kernel = AttentionKernel::deepseek_v4;
}

void add_hyper_connections(Builder& build, int64_t layer) {
  const int64_t streams = build.config.integer({"hc_mult"}, 4, kIndexSize);
  const int64_t mixes = (2 + streams) * streams;
  const int64_t width = streams * build.dims.hidden;
  constexpr int64_t kScales = 3;
  build.weights.parameters(Part::norm,
                           Amount{2} * (Amount{mixes} * width + mixes + kScales) * kFloat32);
  if (layer == build.dims.layers - 1) {
    build.weights.parameters(Part::norm, (Amount{streams} * width + streams + 1) * kFloat32);
  }
}

void add_hashed_mixture(Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  const Mixture mixture = read_mixture(build);
  RankWeights& weights = build.weights;
  const std::string path = build.layer_path(layer) + ".ffn";
  weights.plain(Part::experts, Amount{mixture.experts} * build.dims.hidden);
  if (layer < config.integer({"num_hash_layers"}, 0)) {
    constexpr int64_t kInt32 = 4;
    weights.parameters(Part::experts, Amount{build.dims.vocabulary} * mixture.per_token * kInt32);
  } else {
    weights.parameters(Part::experts, Amount{mixture.experts} * kFloat32);
  }
  // compressed-tensors' schemes were looked up by the usual names.
  const bool usual = build.options.version < kSchemesByOwnNames &&
                     weights.quantization().method() == "compressed-tensors";
  const std::vector<std::string> names =
      usual ? std::vector<std::string>{"gate_proj", "down_proj", "up_proj"}
            : std::vector<std::string>{"w1", "w2", "w3"};
  weights.experts(
      {{path, "experts", names}, mixture.experts, build.dims.hidden, mixture.intermediate});
  if (mixture.shared_intermediate > 0) {
    add_mlp(build, path + ".shared_experts", mixture.shared_intermediate, Part::mlp);
  }
  build.shape.mixture = true;
  build.shape.activation.expert_intermediate = mixture.intermediate;
  build.shape.activation.experts_per_token = mixture.per_token;
}

}  // namespace

void add_compressed_layer(Builder& build, int64_t layer) {
  add_compressed_attention(build, layer);
  add_hyper_connections(build, layer);
  add_hashed_mixture(build, layer);
}

}  // namespace plimsoll::vllm
