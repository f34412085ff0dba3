// Reads the settings of recurrent layers from configs.
#include "model/decoder_config.h"
#include "model/mixture.h"
#include "model/recurrent.h"

namespace plimsoll::model {

std::vector<LayerParts> attention_or_recurrent(const std::vector<bool>& attention) {
  std::vector<LayerParts> parts;
  for (const bool attends : attention)
    parts.push_back({.attention = attends, .recurrent = !attends});
  return parts;
}

std::vector<LayerParts> attention_or_linear(const ConfigReader& config, int64_t layers,
                                            int64_t period) {
  auto attends = read_layer_types(config, "layer_types", layers, "linear_attention", "");
  if (attends) attends->flip();
  return attention_or_recurrent(attends.value_or(sparse_every(layers, period)));
}

RecurrentTable read_mamba1(const ConfigReader& config, int64_t width, int64_t hidden) {
  constexpr IntegerRange kSizes{1, 65536};
  RecurrentTable table;
  RecurrentSpec& sizes = table.sizes;
  sizes.kind = RecurrentKind::mamba1;
  sizes.heads = width;
  sizes.head_dim = sizes.groups = 1;
  sizes.state = config.integer({"state_size", "mamba_d_state"}, 16, kSizes);
  const Json* rank = config.find({"time_step_rank", "mamba_dt_rank"});
  const bool derived = rank == nullptr || rank->is_string();  // "auto"
  sizes.rank =
      derived ? (hidden + 15) / 16 : config.integer({"time_step_rank", "mamba_dt_rank"}, 1, kSizes);
  sizes.conv = {
      .width = width,
      .taps = config.integer({"conv_kernel", "d_conv", "mamba_d_conv"}, 4, {1, kMostTaps}),
      .activation = Activation::silu};
  table.conv_bias = config.boolean({"use_conv_bias", "mamba_conv_bias"}, true);
  table.bias = table.out_bias = config.boolean({"use_bias", "mamba_proj_bias"}, false);
  return table;
}

RecurrentTable read_mamba2(const ConfigReader& config, const Mamba2Keys& keys, int64_t width,
                           const RecurrentSpec& missing) {
  constexpr IntegerRange kSizes{1, 65536};
  RecurrentTable table;
  RecurrentSpec& sizes = table.sizes;
  sizes.kind = RecurrentKind::mamba2;
  sizes.heads = config.integer({keys.heads}, missing.heads, kSizes);
  const Json* head = config.find({keys.head_dim});
  const bool given = head != nullptr && !head->is_string();  // "auto"
  sizes.head_dim = given ? config.integer({keys.head_dim}, missing.head_dim, kSizes)
                   : missing.head_dim > 0 ? missing.head_dim
                                          : width / sizes.heads;
  if (sizes.heads * sizes.head_dim != width) {
    config.refuse(keys.heads, "heads whose sizes add up to " + std::to_string(width));
  }
  sizes.groups = config.integer({keys.groups}, missing.groups, kSizes);
  if (sizes.heads % sizes.groups != 0) config.doubt(keys.groups, "a divisor of the heads");
  sizes.state = config.integer({keys.state}, missing.state, kSizes);
  sizes.conv = {.width = width + 2 * sizes.groups * sizes.state,
                .taps = config.integer({keys.taps}, 4, {1, kMostTaps}),
                .activation = Activation::silu};
  sizes.norm = {.epsilon = 1e-5f, .present = true};
  sizes.norm_groups = sizes.groups;
  table.conv_bias = config.boolean({keys.conv_bias}, true);
  table.bias = table.out_bias = config.boolean({keys.bias}, false);
  return table;
}

RecurrentTable channel_delta_table(int64_t heads, int64_t head_dim, int64_t taps, float epsilon) {
  RecurrentTable table{.module = "self_attn"};
  RecurrentSpec& sizes = table.sizes;
  sizes.kind = RecurrentKind::channel_delta;
  sizes.heads = sizes.groups = sizes.norm_groups = heads;
  sizes.head_dim = sizes.state = sizes.rank = head_dim;
  sizes.conv = {.width = 3 * sizes.width(), .taps = taps, .activation = Activation::silu};
  sizes.norm = {.epsilon = epsilon, .present = true};
  sizes.gated = RecurrentSpec::Gated::after_norm;
  sizes.gate = GateKind::sigmoid;
  return table;
}

RecurrentTable read_channel_delta(const ConfigReader& config, float epsilon) {
  constexpr IntegerRange kSizes{1, 65536};
  const ConfigReader mixers = config.object_or_empty("linear_attn_config");
  const auto size = [&](std::string_view key, std::string_view newer, IntegerRange range) {
    const auto stated = mixers.integer({key}, range);
    return stated ? *stated : config.required({newer}, range);
  };
  const int64_t heads = size("num_heads", "linear_num_heads", kSizes);
  const int64_t head_dim = size("head_dim", "linear_head_dim", kSizes);
  const int64_t taps = size("short_conv_kernel_size", "linear_conv_kernel_dim", {1, kMostTaps});
  return channel_delta_table(heads, head_dim, taps, epsilon);
}

}  // namespace plimsoll::model
