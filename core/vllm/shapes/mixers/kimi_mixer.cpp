// Kimi-Linear and Kimi-K3: layers with a delta rule gated for each channel, and latent attention
// without positions in every fourth; Ling 3: the same rule, and latent attention at groups' ends.
#include <algorithm>

#include "base/error.h"
#include "vllm/shapes/mixers/recurrent.h"

namespace plimsoll::vllm {
namespace {

constexpr Bounds kLinearSize{1, 1 << 20};

bool is_delta_layer(const ConfigView& linear, int64_t layer) {
  const std::vector<int64_t> listed = linear.integers({"kda_layers"});  // counted from 1
  return std::find(listed.begin(), listed.end(), layer + 1) != listed.end();
}

void add_delta_state(Builder& build, int64_t heads, int64_t size, int64_t kernel,
                     int64_t checkpoint) {
  const int64_t own = build.weights.share(heads, "the number of linear-attention heads");
  const Amount convolution = Amount{3} * own * size * (kernel - 1) * build.options.element;
  add_state(build, convolution + Amount{own} * size * size * state_element(build, kFloat32), "kda",
            checkpoint);
}

/// Adds the vectors of the delta rule for the `heads` heads of this rank.
void add_delta_vectors(RankWeights& weights, int64_t heads, int64_t size, int64_t kernel) {
  const Amount own = Amount{heads} * size;
  weights.parameters(Part::attention, own * kFloat32);               // dt_bias
  weights.parameters(Part::attention, own * 3 * kernel * kFloat32);  // convolution
  weights.parameters(Part::attention, Amount{heads} * kFloat32);     // A_log
  weights.plain(Part::attention, size);                              // norm
}

void add_delta(Builder& build, const ConfigView& linear, const std::string& path) {
  const int64_t heads = linear.required({"num_heads"}, kLinearSize);
  const int64_t size = linear.required({"head_dim"}, kLinearSize);
  const int64_t kernel = linear.integer({"short_conv_kernel_size"}, 4, kLinearSize);
  const bool full_rank = linear.flag({"use_full_rank_gate"}, false);
  const int64_t inner = heads * size;
  const int64_t hidden = build.dims.hidden;
  RankWeights& weights = build.weights;
  const int64_t own_heads = weights.share(heads, "the number of linear-attention heads");
  const int64_t own = own_heads * size;
  // Queries, keys, values (and gates), the low-rank decay, and a scalar for each head, in one
  // matrix whose rows are padded for the kernel.
  const int64_t wide = full_rank ? 4 : 3;
  const int64_t narrow = full_rank ? 1 : 2;
  int64_t rows = wide * own + narrow * size + own_heads;
  if (full_rank) rows = padded_to(rows, 16).value();
  weights.plain(Part::attention, Amount{rows} * hidden);
  weights.linear(Part::attention, {{path, "f_b_proj", {}}, size, {inner}});
  if (!full_rank)
    weights.linear(Part::attention, {{path, "g_b_proj", {}}, size, {inner}, Split::outputs, true});
  add_delta_vectors(weights, own_heads, size, kernel);
  weights.linear(Part::attention, {{path, "o_proj", {}}, inner, {hidden}, Split::inputs});
  // Copies that the decoding kernel of Hopper and later cards reads.
  if (full_rank && build.options.card >= hardware::Architecture::hopper) {
    weights.buffer(Amount{3} * kernel * own * kFloat32 + Amount{size} * kFloat32);
  }
  add_delta_state(build, heads, size, kernel, channel_delta_checkpoint(build, size));
}

void add_latent(Builder& build, const std::string& path) {
  const ConfigView& config = build.config;
  const int64_t rank = config.required({"kv_lora_rank"});
  const int64_t nope = config.required({"qk_nope_head_dim"});
  const int64_t rope = config.integer({"qk_rope_head_dim"}, 64);
  const int64_t value = config.required({"v_head_dim"});
  const int64_t query_rank = config.integer({"q_lora_rank"}, 0);
  const int64_t hidden = build.dims.hidden;
  const int64_t heads = build.dims.heads;
  const int64_t query = heads * (nope + rope);
  RankWeights& weights = build.weights;
  if (query_rank > 0) {
    weights.linear(Part::attention, {{path, "fused_qkv_a_proj", {"q_a_proj", "kv_a_proj_with_mqa"}},
                                     hidden,
                                     {query_rank, rank + rope},
                                     Split::none});
    weights.plain(Part::attention, query_rank);
    weights.linear(Part::attention, {{path, "q_b_proj", {}}, query_rank, {query}});
  } else {
    weights.linear(Part::attention, {{path, "q_proj", {}}, hidden, {query}});
    weights.linear(Part::attention,
                   {{path, "kv_a_proj_with_mqa", {}}, hidden, {rank + rope}, Split::none});
  }
  if (config.flag({"mla_use_output_gate"}, false)) {
    weights.linear(Part::attention, {{path, "g_proj", {}}, hidden, {heads * value}});
  }
  weights.plain(Part::attention, rank);
  weights.linear(Part::attention, {{path, "kv_b_proj", {}}, rank, {heads * (nope + value)}});
  weights.linear(Part::attention, {{path, "o_proj", {}}, heads * value, {hidden}, Split::inputs});
  weights.attention_scales(true);
  weights.buffer(kFloat32);  // the unit scale of fp8 prefill
  add_latent_cache(build, rank + rope, false);
}

/// Experts in a narrower space.
void add_latent_mixture(Builder& build, const std::string& path) {
  const ConfigView& config = build.config;
  RankWeights& weights = build.weights;
  const Mixture mixture = read_mixture(build);
  const int64_t hidden = build.dims.hidden;
  const int64_t width =
      config.integer({"routed_expert_hidden_size"}, hidden, {1, int64_t{1} << 31});
  weights.plain(Part::experts, Amount{mixture.experts} * hidden);
  weights.parameters(Part::experts, Amount{mixture.experts} * kFloat32);
  if (width != hidden) {
    weights.linear(Part::experts,
                   {{path, "routed_expert_down_proj", {}}, hidden, {width}, Split::none});
    if (config.flag({"latent_moe_use_norm"}, false)) weights.plain(Part::experts, width);
    weights.linear(Part::experts,
                   {{path, "routed_expert_up_proj", {}}, width, {hidden}, Split::none});
  }
  constexpr int64_t kLeastSlice = 256;
  const int64_t ranks = weights.ranks();
  int64_t intermediate = mixture.intermediate;
  if (ranks > 1 && intermediate / ranks < kLeastSlice) intermediate = kLeastSlice * ranks;
  weights.experts({{path, "experts", {}}, mixture.experts, width, intermediate});
  if (mixture.shared_intermediate > 0) {
    add_mlp(build, path + ".shared_experts", mixture.shared_intermediate, Part::mlp);
  }
  build.shape.mixture = true;
  build.shape.activation.expert_intermediate = mixture.intermediate;
  build.shape.activation.experts_per_token = mixture.per_token;
}

}  // namespace

void add_kimi_layer(Builder& build, int64_t layer) {
  const ConfigView linear = build.config.child({"linear_attn_config"});
  const std::string path = build.layer_path(layer);
  if (is_delta_layer(linear, layer)) {
    add_delta(build, linear, path + ".self_attn");
  } else {
    add_latent(build, path + ".self_attn");
  }
  if (is_mixture_layer(build, layer)) {
    add_latent_mixture(build, path + ".block_sparse_moe");
  } else {
    add_feed_forward(build, layer);
  }
  if (build.config.has("attn_res_block_size")) {
    build.weights.plain(Part::norm, 4 * build.dims.hidden);
    if (layer == build.dims.layers - 1) build.weights.plain(Part::norm, 2 * build.dims.hidden);
  }
}

void add_grouped_delta(Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  if (build.bias(build.family.mlp_bias) && is_mixture_layer(build, layer)) {
    fail(ExitCode::usage,
         "When not reduce the results, adding bias to the results can lead to incorrect results: "
         "vLLM refuses \"use_bias\" beside shared experts");
  }
  const int64_t group = config.required({"layer_group_size"}, kLinearSize);
  const int64_t grouped = build.dims.layers / group * group;
  const int64_t heads = build.dims.heads, hidden = build.dims.hidden;
  const std::string path = build.layer_path(layer) + ".self_attn";
  RankWeights& weights = build.weights;
  if ((layer + 1) % group == 0 || layer >= grouped) {
    add_latent_attention(build, layer);
    const std::string gate = config.text({"gated_attention_proj_granularity_type"}, "");
    const int64_t each = gate == "head_wise"      ? 1
                         : gate == "element_wise" ? config.integer({"v_head_dim"}, 128)
                                                  : 0;
    if (each > 0) weights.linear(Part::attention, {{path, "g_proj", {}}, hidden, {heads * each}});
    return;
  }
  const int64_t size = build.dims.head_size;
  const int64_t kernel = config.integer({"short_conv_kernel_size"}, 4, kLinearSize);
  const int64_t inner = heads * size;
  const int64_t own_heads = weights.share(heads, "the number of attention heads");
  weights.linear(Part::attention, {{path, "qkvb_proj", {"q_proj", "k_proj", "v_proj", "b_proj"}},
                                   hidden,
                                   {inner, inner, inner, heads}});
  weights.linear(Part::attention, {{path, "f_proj", {}}, hidden, {inner}});
  weights.linear(Part::attention, {{path, "g_proj", {}}, hidden, {inner}});
  weights.linear(Part::attention, {{path, "o_proj", {}}, inner, {hidden}, Split::inputs});
  add_delta_vectors(weights, own_heads, size, kernel);
  add_delta_state(build, heads, size, kernel, 0);
}

}  // namespace plimsoll::vllm
