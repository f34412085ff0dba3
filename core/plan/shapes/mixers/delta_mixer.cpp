// Gated delta rule layers (Qwen3-Next, Qwen3.5): three in four keep a matrix of state for each
// head.
#include "base/error.h"
#include "plan/shapes/mixers/recurrent.h"

namespace plimsoll::plan {

int64_t state_element(const Builder& build, int64_t fallback) {
  std::string dtype = build.options.state_dtype;
  if (dtype.empty() || dtype == "auto") {
    dtype = build.config.text({"mamba_ssm_dtype", "mamba_ssm_cache_dtype"}, "");
  }
  if (dtype.empty() || dtype == "auto") return fallback;
  return dtype == "float32" ? 4 : 2;
}

void add_state(Builder& build, Amount bytes, const char* kernel) {
  KvLayer cache;
  cache.kind = KvKind::state;
  cache.token_bytes = bytes;
  cache.kernel = kernel;
  build.shape.kv_layers.push_back(cache);
  build.shape.recurrent = true;
}

namespace {

bool is_linear_layer(const Builder& build, int64_t layer) {
  const std::string type = build.layer_type(layer);
  if (!type.empty()) return type == "linear_attention";
  const int64_t interval = build.config.integer({"full_attention_interval"}, 4, {1, 1 << 20});
  return (layer + 1) % interval != 0;
}

/// Marlin's kernels need 64 outputs: a narrower matrix is held whole on every rank.
bool wants_wide_matrices(const Quantization& quantization) {
  const std::string& method = quantization.method();
  return method.starts_with("awq") || method.starts_with("gptq") || method.ends_with("auto-round");
}

/// Projections to queries, keys, values and gates, and to what decays and mixes for each head.
void add_delta_inputs(Builder& build, const std::string& path, int64_t keys, int64_t values,
                      int64_t value_heads) {
  using Names = std::vector<std::string>;
  const int64_t hidden = build.dims.hidden;
  RankWeights& weights = build.weights;
  const auto add = [&](const char* leaf, Names shards, std::vector<int64_t> widths) {
    weights.linear(Part::attention, {{path, leaf, std::move(shards)}, hidden, std::move(widths)});
  };
  switch (build.family.mixer) {
    case Mixer::delta_plain:
      add("in_proj_qkvg", {"q_proj", "k_proj", "v_proj", "g_proj"}, {keys, keys, values, values});
      add("b_proj", {}, {value_heads});
      add("a_proj", {}, {value_heads});
      return;
    case Mixer::delta_split:
      add("in_proj_qkvz", {"in_proj_qkv", "in_proj_z"}, {keys, keys, values, values});
      weights.linear(Part::attention,
                     {{path, "in_proj_ba", {"in_proj_b", "in_proj_a"}},
                      hidden,
                      {value_heads, value_heads},
                      wants_wide_matrices(weights.quantization()) ? Split::none : Split::outputs});
      return;
    default:
      add("in_proj_qkvz", {}, {2 * keys + 2 * values});
      add("in_proj_ba", {}, {2 * value_heads});
  }
}

}  // namespace

void add_delta_mixer(Builder& build, int64_t layer) {
  if (!is_linear_layer(build, layer)) {
    add_attention(build, layer);
    build.shape.attention_token_bytes = build.shape.kv_layers.back().token_bytes;
    return;
  }
  const ConfigView& config = build.config;
  constexpr Bounds kSize{1, 1 << 20};
  const int64_t key_heads = config.required({"linear_num_key_heads"}, kSize);
  const int64_t value_heads = config.required({"linear_num_value_heads"}, kSize);
  const int64_t key_size = config.required({"linear_key_head_dim"}, kSize);
  const int64_t value_size = config.required({"linear_value_head_dim"}, kSize);
  const int64_t kernel = config.integer({"linear_conv_kernel_dim"}, 4, kSize);
  const int64_t keys = key_heads * key_size;
  const int64_t values = value_heads * value_size;
  const int64_t channels = 2 * keys + values;
  const int64_t hidden = build.dims.hidden;
  const std::string path = build.layer_path(layer) + ".linear_attn";
  RankWeights& weights = build.weights;
  const bool plain = build.family.mixer == Mixer::delta_plain;

  weights.linear(Part::attention,
                 {{path, "conv1d", {}}, kernel, {channels}, Split::outputs, false, false});
  add_delta_inputs(build, path, keys, values, value_heads);
  const int64_t own_heads =
      weights.share(value_heads, "the number of linear-attention value heads");
  weights.plain(Part::attention, own_heads);  // dt_bias
  weights.parameters(Part::attention,
                     Amount{own_heads} * (plain ? build.options.element : kFloat32));  // A_log
  weights.plain(Part::attention, value_size);                                          // gated norm
  weights.linear(Part::attention,
                 {{path, plain ? "o_proj" : "out_proj", {}}, values, {hidden}, Split::inputs});

  const int64_t own_channels = weights.share(channels, "the convolution's channels");
  const Amount convolution = Amount{own_channels} * (kernel - 1) * build.options.element;
  const Amount state =
      Amount{own_heads} * value_size * key_size * state_element(build, build.options.element);
  add_state(build, convolution + state, "gdn");
}

}  // namespace plimsoll::plan
