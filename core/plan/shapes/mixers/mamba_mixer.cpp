// Mamba-2 layers, and models that mix them with attention.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "plan/shapes/mixers/recurrent.h"

namespace plimsoll::plan {
namespace {

struct Mamba2 {
  int64_t intermediate;
  int64_t state;
  int64_t groups;
  int64_t heads;
  int64_t head_size;
  int64_t kernel;
  bool bias;
  bool conv_bias;
};

Mamba2 mamba_dims(const Builder& build) {
  const ConfigView& config = build.config;
  constexpr Bounds kSize{1, 1 << 24};
  Mamba2 dims{};
  dims.state = config.required({"ssm_state_size", "mamba_d_state", "state_size"}, kSize);
  dims.groups = config.integer({"n_groups", "mamba_n_groups", "mamba_ngroups"}, 1, kSize);
  dims.heads =
      config.required({"mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads"}, kSize);
  const int64_t expand = config.integer({"mamba_expand", "expand"}, 2, kSize);
  const int64_t fallback = expand * build.dims.hidden / dims.heads;
  dims.head_size = fallback;
  if (build.family.mixer == Mixer::mamba2_alone) {
    dims.head_size = config.integer({"head_dim"}, fallback, kSize);
  } else if (!config.is_text("mamba_d_head")) {  // "auto"
    dims.head_size = config.integer({"mamba_head_dim", "mamba_d_head"}, fallback, kSize);
  }
  dims.intermediate = config.integer({"mamba_d_ssm"}, dims.heads * dims.head_size, kSize);
  dims.kernel = config.integer({"conv_kernel", "mamba_d_conv", "conv_kernel_size"}, 4, kSize);
  dims.bias = config.flag({"use_bias", "mamba_proj_bias", "add_bias_linear"}, false);
  dims.conv_bias = config.flag({"use_conv_bias", "mamba_conv_bias"}, true);
  return dims;
}

/// A single group is repeated on every rank.
int64_t ranked_groups(const Mamba2& dims, const RankWeights& weights) {
  if (dims.groups % weights.ranks() == 0) return dims.groups;
  if (dims.groups != 1) {
    fail(ExitCode::usage,
         "--tensor-parallel-size {}: the number of Mamba groups ({}) cannot be divided by it; vLLM "
         "refuses this size",
         weights.ranks(), dims.groups);
  }
  return weights.ranks();
}

}  // namespace

void add_mamba2(Builder& build, const std::string& path) {
  const Mamba2 dims = mamba_dims(build);
  RankWeights& weights = build.weights;
  const int64_t hidden = build.dims.hidden;
  const int64_t own_heads = weights.share(dims.heads, "the number of Mamba heads");
  const int64_t grouped = ranked_groups(dims, weights) * dims.state;
  const int64_t channels = dims.intermediate + 2 * grouped;
  const int64_t own_channels = weights.share(channels, "the convolution's channels");
  weights.linear(
      Part::attention,
      {{path, "conv1d", {}}, dims.kernel, {channels}, Split::outputs, dims.conv_bias, false});
  weights.buffer(Amount{own_channels} * dims.kernel * build.options.element);  // a view of it
  // Where every rank repeats the group, one matrix holds what else is fused from five.
  std::vector<int64_t> widths = {dims.intermediate, dims.intermediate, grouped, grouped,
                                 dims.heads};
  if (dims.groups % weights.ranks() != 0) {
    widths = {std::accumulate(widths.begin(), widths.end(), int64_t{0})};
  }
  weights.linear(Part::attention,
                 {{path, "in_proj", {}}, hidden, widths, Split::outputs, dims.bias});
  weights.parameters(Part::attention, Amount{own_heads} * kFloat32);  // A
  weights.plain(Part::attention, 2 * own_heads);                      // D, dt_bias
  weights.linear(Part::attention,
                 {{path, "out_proj", {}}, dims.intermediate, {hidden}, Split::inputs, dims.bias});
  const bool beside = build.family.mixer == Mixer::mamba_beside;
  if (!beside || build.config.flag({"mamba_rms_norm"}, false)) {
    weights.plain(Part::attention, dims.intermediate / weights.ranks());  // gated norm
  }
  if (beside) {  // one multiplier for each output of in_proj
    const int64_t outputs = 2 * dims.intermediate + 2 * grouped + dims.heads;
    weights.buffer(Amount{outputs / weights.ranks()} * build.options.element);
  }
  const Amount convolution = Amount{own_channels} * (dims.kernel - 1) * build.options.element;
  const Amount state =
      Amount{own_heads} * dims.head_size * dims.state *
      state_element(build, build.family.mixer == Mixer::mamba_pattern ? 4 : build.options.element);
  add_state(build, convolution + state, "mamba2");
}

namespace {

void add_attention_of_hybrid(Builder& build, int64_t layer) {
  add_attention(build, layer);
  build.shape.attention_token_bytes = build.shape.kv_layers.back().token_bytes;
}

/// Nemotron-H's mixture: experts in a narrower space, one matrix up.
void add_latent_experts(Builder& build, const std::string& path) {
  const ConfigView& config = build.config;
  RankWeights& weights = build.weights;
  const Mixture mixture = read_mixture(build);
  const int64_t hidden = build.dims.hidden;
  const int64_t width = config.integer({"moe_latent_size"}, hidden, {1, int64_t{1} << 31});
  weights.plain(Part::experts, Amount{mixture.experts} * hidden);
  weights.parameters(Part::experts, Amount{mixture.experts} * kFloat32);
  if (width != hidden) {
    const bool bias = build.bias(build.family.mlp_bias);
    weights.linear(Part::experts,
                   {{path, "fc1_latent_proj", {}}, hidden, {width}, Split::none, bias});
    weights.linear(Part::experts,
                   {{path, "fc2_latent_proj", {}}, width, {hidden}, Split::none, bias});
  }
  weights.experts({{path, "experts", {}}, mixture.experts, width, mixture.intermediate, 1});
  const int64_t count = config.integer({"n_shared_experts"}, 0, {0, 1 << 20});
  const int64_t each =
      config.integer({"moe_shared_expert_intermediate_size"}, mixture.intermediate);
  if (count > 0) add_mlp(build, path + ".shared_experts", count * each, Part::mlp);
  build.shape.mixture = true;
  build.shape.activation.expert_intermediate = mixture.intermediate;
  build.shape.activation.experts_per_token = mixture.per_token;
}

/// One letter for each layer: M Mamba, * attention, - feed-forward, E experts.
char pattern_letter(const Builder& build, int64_t layer) {
  const auto i = static_cast<size_t>(layer);
  const std::string pattern = build.config.text({"hybrid_override_pattern"}, "");
  if (i < pattern.size()) return pattern[i];
  const std::vector<std::string> types = build.config.texts({"layers_block_type"});
  if (i < types.size()) {
    if (types[i] == "mamba" || types[i] == "linear_attention") return 'M';
    if (types[i] == "attention" || types[i] == "full_attention") return '*';
    if (types[i] == "moe") return 'E';
    if (types[i] == "mlp") return '-';
  }
  fail(ExitCode::checkpoint_unusable,
       "{}: \"hybrid_override_pattern\" says nothing of layer {}; expected one of M * - E for each "
       "of the layers",
       build.config.path(), layer);
}

void add_pattern_layer(Builder& build, int64_t layer) {
  const std::string path = build.layer_path(layer) + ".mixer";
  switch (pattern_letter(build, layer)) {
    case 'M':
      add_mamba2(build, path);
      return;
    case '*':
      add_attention_of_hybrid(build, layer);
      return;
    case 'E':
      add_latent_experts(build, path);
      return;
    case '-': {
      const std::vector<int64_t> widths = build.config.integers({"intermediate_size"});
      const int64_t width = widths.empty() ? build.dims.intermediate : widths.front();
      add_mlp(build, path, width, Part::mlp, build.bias(build.family.mlp_bias));
      build.shape.activation.intermediate =
          std::max(build.shape.activation.intermediate, width / build.weights.ranks());
      return;
    }
    default:
      fail(ExitCode::checkpoint_unusable,
           "{}: \"hybrid_override_pattern\" has '{}' for layer {}, expected one of M * - E",
           build.config.path(), pattern_letter(build, layer), layer);
  }
}

bool is_mamba_layer(const Builder& build, int64_t layer) {
  const auto i = static_cast<size_t>(layer);
  const std::vector<std::string> types = build.config.texts({"layers_block_type", "layer_types"});
  if (i < types.size()) {
    return types[i] == "mamba" || types[i] == "mamba2" || types[i] == "linear_attention";
  }
  const std::vector<int64_t> attention = build.config.integers({"attn_layer_indices"});
  if (!attention.empty()) {
    return std::find(attention.begin(), attention.end(), layer) == attention.end();
  }
  const int64_t period = build.config.integer({"attn_layer_period"}, 0);
  if (period > 0) return layer % period != build.config.integer({"attn_layer_offset"}, 0);
  return true;
}

/// Mamba-1 layers, plain in every checkpoint; Jamba's have norms besides.
void add_mamba1(Builder& build, const std::string& path) {
  const ConfigView& config = build.config;
  constexpr Bounds kSize{1, 1 << 24};
  RankWeights& weights = build.weights;
  const int64_t hidden = build.dims.hidden;
  const bool alone = build.family.mixer == Mixer::mamba1_alone;
  const int64_t expanded = hidden * config.integer({"mamba_expand", "expand"}, 2, kSize);
  const int64_t inner =
      alone ? config.integer({"intermediate_size"}, expanded, {1, 1 << 24}) : expanded;
  const int64_t state = config.integer({"mamba_d_state", "state_size"}, 16, kSize);
  const int64_t kernel = config.integer({"mamba_d_conv", "conv_kernel"}, 4, kSize);
  const bool stated = !config.is_text("mamba_dt_rank") && !config.is_text("time_step_rank");
  const int64_t usual = (hidden + 15) / 16;  // "auto"
  const int64_t rank =
      stated ? config.integer({"mamba_dt_rank", "time_step_rank"}, usual, kSize) : usual;
  const int64_t own = weights.share(inner, "the Mamba layers' width");
  const bool bias = config.flag({"mamba_proj_bias", "use_bias"}, false);
  weights.linear(Part::attention, {{path, "conv1d", {}},
                                   kernel,
                                   {inner},
                                   Split::outputs,
                                   config.flag({"mamba_conv_bias", "use_conv_bias"}, true),
                                   false});
  weights.linear(Part::attention,
                 {{path, "in_proj", {}}, hidden, {inner, inner}, Split::outputs, bias, false});
  weights.linear(Part::attention,
                 {{path, "x_proj", {}}, inner, {rank + 2 * state}, Split::inputs, false, false});
  weights.linear(Part::attention,
                 {{path, "dt_proj", {}}, rank, {inner}, Split::outputs, true, false});
  weights.parameters(Part::attention, Amount{own} * state * kFloat32);  // A
  weights.plain(Part::attention, own);                                  // D
  weights.linear(Part::attention,
                 {{path, "out_proj", {}}, inner, {hidden}, Split::inputs, bias, false});
  if (!alone) weights.plain(Part::attention, rank + 2 * state);  // norms of dt, B and C
  const Amount states = Amount{own} * ((kernel - 1) * build.options.element +
                                       state * state_element(build, build.options.element));
  add_state(build, states, "mamba1");
}

}  // namespace

void add_mamba(Builder& build, int64_t layer) {
  if (build.family.mixer == Mixer::mamba_pattern) {
    add_pattern_layer(build, layer);
    return;
  }
  const Mixer mixer = build.family.mixer;
  if (mixer == Mixer::mamba_beside) {
    add_attention_of_hybrid(build, layer);
  } else if (mixer == Mixer::mamba_layers && !is_mamba_layer(build, layer)) {
    add_attention_of_hybrid(build, layer);
    return;
  }
  const std::string path = build.layer_path(layer) + ".mixer";  // vLLM's name
  if (mixer == Mixer::mamba1_alone || build.family.mamba1) {
    add_mamba1(build, path);
  } else {
    add_mamba2(build, path);
  }
}

}  // namespace plimsoll::plan
