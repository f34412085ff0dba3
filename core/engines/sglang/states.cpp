#include "engines/sglang/states.h"

#include <algorithm>

namespace plimsoll::engines::sglang {
namespace {

/// Values of one layer's state on one rank.
struct StateShape {
  int64_t convolution = 0;
  int64_t recurrent = 0;
};

StateShape gated_delta(const DeltaSizes& delta, int64_t tp) {
  const int64_t channels = delta.v_heads * delta.v_dim + 2 * delta.k_heads * delta.k_dim;
  return {channels / tp * (delta.kernel - 1), delta.v_heads / tp * delta.v_dim * delta.k_dim};
}

StateShape mamba2(const ConfigView& text, int64_t tp) {
  const int64_t heads = text.required({"mamba_num_heads", "mamba_n_heads"}, kHead);
  const int64_t width = text.required({"mamba_head_dim", "mamba_d_head"}, kHead);
  const int64_t state = text.required({"ssm_state_size", "mamba_d_state"}, kHead);
  const int64_t kernel = text.integer({"conv_kernel", "mamba_d_conv"}, 4, {1, 1024});
  int64_t groups = text.integer({"n_groups", "mamba_n_groups"}, 1, kHead);
  if (groups % tp != 0) groups = tp;
  return {(heads * width + 2 * groups * state) / tp * (kernel - 1), heads / tp * width * state};
}

StateShape kimi_delta(const ConfigView& linear, int64_t tp) {
  const int64_t heads = linear.required({"num_heads"}, kHead);
  const int64_t width = linear.required({"head_dim"}, kHead);
  const int64_t kernel = linear.integer({"short_conv_kernel_size"}, 4, {1, 1024});
  return {3 * heads * width / tp * (kernel - 1), heads / tp * width * width};
}

/// Layers with states and with attention, by the way in which a config states them.
States layers_of(const ModelConfig& config) {
  const ConfigView text = config.text();
  const int64_t all = config.layers();
  States states;
  const auto set = [&](int64_t layers, int64_t attention) {
    states.layers = std::min(layers, all);
    states.attention_layers = std::min(attention, all);
    return states;
  };
  if (text.has_child({"linear_attn_config"})) {
    const ConfigView linear = text.child({"linear_attn_config"});
    return set(std::ssize(linear.integers({"kda_layers"})),
               std::ssize(linear.integers({"full_attn_layers"})));
  }
  if (text.is_text("hybrid_override_pattern")) {
    const std::string pattern = text.text({"hybrid_override_pattern"}, "");
    return set(std::ranges::count(pattern, 'M'), std::ranges::count(pattern, '*'));
  }
  if (text.has("layers_block_type")) {
    const std::vector<std::string> types = text.texts({"layers_block_type"});
    return set(count_of(types, "mamba"), count_of(types, "attention"));
  }
  if (text.has("layer_types")) {
    const std::vector<std::string> types = text.texts({"layer_types"});
    const int64_t attention = count_of(types, "full_attention") + count_of(types, "attention");
    return set(all - attention, attention);
  }
  if (config.architecture().starts_with("FalconH1")) return set(all, all);
  const int64_t interval = text.integer({"full_attention_interval"}, 4, {1, 1 << 14});
  return set(all - all / interval, all / interval);
}

}  // namespace

States states_of(const Launch& launch, const ModelConfig& config) {
  const ConfigView text = config.text();
  const int64_t tp = launch.attention_tp;
  States states = layers_of(config);
  StateShape shape;
  if (text.has_child({"linear_attn_config"})) {
    shape = kimi_delta(text.child({"linear_attn_config"}), tp);
  } else if (text.has("linear_num_value_heads")) {
    shape = gated_delta(config.delta_sizes(), tp);
  } else if (text.has("conv_L_cache")) {  // LFM2: a short convolution alone
    const int64_t kernel = text.integer({"conv_L_cache"}, 3, {1, 1024});
    shape = {config.hidden() / tp * (kernel - 1), 0};
  } else {
    shape = mamba2(text, tp);
  }
  std::string dtype = launch.state_dtype;
  if (dtype.empty()) dtype = text.text({"mamba_ssm_dtype"}, "float32");
  states.bytes_per_request =
      states.layers * (shape.convolution * 2 + shape.recurrent * element_bytes(dtype));
  return states;
}

int64_t slots_per_request(const Launch& launch) {
  if (!launch.radix) return 1;
  if (launch.state_strategy == "extra_buffer") return 5;
  return launch.state_strategy == "extra_buffer_lazy" ? 4 : 3;
}

}  // namespace plimsoll::engines::sglang
