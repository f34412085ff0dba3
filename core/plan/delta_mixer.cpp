// Gated delta rule layers (Qwen3-Next, Qwen3.5): three in four keep a matrix of state for each
// head.
#include "base/error.h"
#include "plan/recurrent.h"

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
  const bool split = build.family.mixer == Mixer::delta_split;

  weights.linear(Part::attention,
                 {{path, "conv1d", {}}, kernel, {channels}, Split::outputs, false, false});
  using Names = std::vector<std::string>;
  using Widths = std::vector<int64_t>;
  weights.linear(Part::attention,
                 {{path, "in_proj_qkvz", split ? Names{"in_proj_qkv", "in_proj_z"} : Names{}},
                  hidden,
                  split ? Widths{keys, keys, values, values} : Widths{channels + values}});
  weights.linear(Part::attention,
                 {{path, "in_proj_ba", split ? Names{"in_proj_b", "in_proj_a"} : Names{}},
                  hidden,
                  split ? Widths{value_heads, value_heads} : Widths{2 * value_heads}});
  const int64_t own_heads =
      weights.share(value_heads, "the number of linear-attention value heads");
  constexpr int64_t kFloat32 = 4;
  weights.plain(Part::attention, own_heads);                          // dt_bias
  weights.parameters(Part::attention, Amount{own_heads} * kFloat32);  // A_log
  weights.plain(Part::attention, value_size);                         // gated norm
  weights.linear(Part::attention, {{path, "out_proj", {}}, values, {hidden}, Split::inputs});

  const int64_t own_channels = weights.share(channels, "the convolution's channels");
  const Amount convolution = Amount{own_channels} * (kernel - 1) * build.options.element;
  const Amount state =
      Amount{own_heads} * value_size * key_size * state_element(build, build.options.element);
  add_state(build, convolution + state, "gdn");
}

}  // namespace plimsoll::plan
