// Gemma 4: heads of another size in the full layers, keys used as values, inputs for each layer,
// and a mixture beside the dense feed-forward. Gemma 3n: likewise, with alternating updates and
// residuals of low rank instead of the mixture.
#include "plan/shapes/builder.h"

namespace plimsoll::plan {
namespace {

struct Gemma4Heads {
  bool sliding;
  bool shared;  // uses the cache of an earlier layer
  int64_t kv_heads;
  int64_t size;
};

Gemma4Heads gemma4_heads(const Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  const std::string type = build.layer_type(layer);
  const int64_t period = build.family.window_period;
  const bool sliding = type.empty() ? (layer + 1) % period != 0 : type == "sliding_attention";
  const int64_t shared = config.integer({"num_kv_shared_layers"}, 0);
  Gemma4Heads heads{sliding, shared > 0 && layer >= build.dims.layers - shared, build.dims.kv_heads,
                    build.dims.head_size};
  if (!sliding) {
    constexpr Bounds kSizes{1, 1 << 20};
    // What transformers 5 saves in place of the keys for all full layers.
    const ConfigView own =
        config.child({"per_layer_config"}).child({std::to_string(layer).c_str()});
    heads.size =
        own.integer({"head_dim"}, config.integer({"global_head_dim"}, heads.size, kSizes), kSizes);
    if (config.flag({"attention_k_eq_v"}, false)) {
      heads.kv_heads = own.integer(
          {"num_key_value_heads"},
          config.integer({"num_global_key_value_heads"}, heads.kv_heads, kSizes), kSizes);
    }
  }
  return heads;
}

void add_gemma4_attention(Builder& build, int64_t layer) {
  const Gemma4Heads heads = gemma4_heads(build, layer);
  const std::string path = build.layer_path(layer) + ".self_attn";
  RankWeights& weights = build.weights;
  const bool bias = build.config.flag({"attention_bias"}, false);
  const int64_t inner = build.dims.heads * heads.size;
  const int64_t own = weights.kv_heads(heads.kv_heads);
  if (heads.shared) {
    weights.linear(Part::attention,
                   {{path, "q_proj", {}}, build.dims.hidden, {inner}, Split::outputs, bias});
    weights.plain(Part::attention, heads.size);
    ++build.shape.kv_shared_layers;
  } else {
    weights.qkv(Part::attention,
                {path, build.dims.hidden, build.dims.heads, heads.kv_heads, heads.size, 0, bias});
    weights.plain(Part::attention, 2 * heads.size);
    const int64_t window = heads.sliding ? build.config.integer({"sliding_window"}, 512) : 0;
    build.shape.kv_layers.push_back(
        attention_cache(build, own, heads.size, heads.size, window,
                        heads.sliding ? KvKind::sliding : KvKind::full));
  }
  weights.linear(Part::attention,
                 {{path, "o_proj", {}}, inner, {build.dims.hidden}, Split::inputs, bias});
  // The proportional table covers the whole head whatever share of it is rotated.
  RotaryTable table =
      rotary_table(build, heads.size, heads.sliding ? "sliding_attention" : "full_attention");
  table.dimensions = heads.size;
  weights.rotary(table);
  weights.attention_scales();
  constexpr int64_t kLargestCommonHead = 256;
  if (heads.size > kLargestCommonHead) build.shape.kernel = AttentionKernel::large_head_flash;
}

void add_gemma4_experts(Builder& build, const std::string& path) {
  const ConfigView& config = build.config;
  RankWeights& weights = build.weights;
  const int64_t hidden = build.dims.hidden;
  const int64_t experts = config.integer({"num_experts"}, 0, {0, 1 << 20});
  if (experts == 0) return;
  const int64_t width = config.required({"moe_intermediate_size", "expert_intermediate_size"});
  weights.plain(Part::experts, hidden + experts + Amount{experts} * hidden);  // scales, router
  weights.buffer(build.options.element);                                      // root of the size
  weights.experts({{path, "experts", {}}, experts, hidden, width});
  weights.plain(Part::norm, 3 * hidden);
  build.shape.mixture = true;
  build.shape.activation.expert_intermediate = width;
  build.shape.activation.experts_per_token = config.integer({"top_k_experts"}, 1);
}

/// Embeddings given to every layer, once for the model.
void add_layer_inputs(Builder& build, int64_t width) {
  RankWeights& weights = build.weights;
  const int64_t all = width * build.dims.layers;
  weights.vocabulary(Part::embedding,
                     build.config.integer({"vocab_size_per_layer_input"}, build.dims.vocabulary),
                     all);
  weights.linear(Part::embedding,
                 {{"", "per_layer_model_projection", {}}, build.dims.hidden, {all}});
  weights.plain(Part::norm, width);
  weights.buffer(Amount{3} * build.options.element);
}

/// Gemma 3n keeps several copies of the hidden state and changes one of them in each layer: what
/// every layer holds for that, and once for the model the ways in and out.
void add_alternating_updates(Builder& build, const std::string& path, int64_t layer) {
  RankWeights& weights = build.weights;
  const int64_t hidden = build.dims.hidden;
  const int64_t copies = build.config.integer({"altup_num_inputs"}, 4, {1, 1 << 8});
  const auto whole = [&](const char* name, int64_t inputs, int64_t outputs) {
    weights.linear(Part::mlp, {{path + ".altup", name, {}}, inputs, {outputs}, Split::none});
  };
  whole("correction_coefs", copies, copies);
  whole("prediction_coefs", copies, copies * copies);
  whole("modality_router", hidden, copies);
  weights.plain(Part::norm, hidden);
  weights.parameters(Part::mlp, Amount{hidden} * kFloat32);  // correct_output_scale
  const int64_t rank = build.config.integer({"laurel_rank"}, 64, {1, 1 << 20});
  weights.linear(Part::mlp, {{path + ".laurel", "linear_left", {}}, hidden, {rank}});
  weights.linear(Part::mlp,
                 {{path + ".laurel", "linear_right", {}}, rank, {hidden}, Split::inputs});
  weights.plain(Part::norm, hidden);
  if (layer > 0) return;
  for (int64_t copy = 1; copy < copies; ++copy) {
    for (const char* name : {"altup_projections", "altup_unembed_projections"}) {
      weights.linear(Part::embedding, {{"", name, {}}, hidden, {hidden}});
    }
  }
}

/// Widths may be listed for each layer.
int64_t stated_width(const Builder& build, int64_t layer) {
  const std::vector<int64_t> each = build.config.integers({"intermediate_size"});
  const auto i = static_cast<size_t>(layer);
  return i < each.size() && each[i] > 0 && each[i] < int64_t{1} << 31 ? each[i]
                                                                      : build.dims.intermediate;
}

}  // namespace

void add_gemma4_layer(Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  RankWeights& weights = build.weights;
  const std::string path = build.layer_path(layer);
  const int64_t inputs =
      config.integer({"hidden_size_per_layer_input"}, build.family.alternating ? 256 : 0);
  if (build.family.alternating) add_alternating_updates(build, path, layer);
  if (layer == 0 && inputs > 0) add_layer_inputs(build, inputs);
  add_gemma4_attention(build, layer);
  const bool wide =
      config.flag({"use_double_wide_mlp"}, false) && gemma4_heads(build, layer).shared;
  const int64_t intermediate = stated_width(build, layer) * (wide ? 2 : 1);
  add_mlp(build, path + ".mlp", intermediate, Part::mlp);
  build.shape.activation.intermediate =
      std::max(build.shape.activation.intermediate, intermediate / weights.ranks());
  add_gemma4_experts(build, path);
  if (inputs > 0) {
    weights.linear(Part::mlp,
                   {{path, "per_layer_input_gate", {}}, build.dims.hidden, {inputs}, Split::none});
    weights.linear(Part::mlp,
                   {{path, "per_layer_projection", {}}, inputs, {build.dims.hidden}, Split::none});
    weights.plain(Part::norm, build.dims.hidden);
  }
  weights.buffer(build.options.element);  // the layer's scalar
}

}  // namespace plimsoll::plan
