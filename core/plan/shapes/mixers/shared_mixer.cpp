// Zamba2: Mamba-2 layers, before some of which a block of attention and feed-forward comes that
// several layers share.
#include <algorithm>

#include "plan/shapes/mixers/recurrent.h"

namespace plimsoll::plan {
namespace {

/// What the hybrid layers of Zamba2 share: one of `num_mem_blocks` blocks of attention and
/// feed-forward over the hidden state beside the embedding.
void add_shared_block(Builder& build, int64_t inner) {
  const ConfigView& config = build.config;
  const TextDims& dims = build.dims;
  RankWeights& weights = build.weights;
  const std::string path = "shared_transformer";
  weights.qkv(Part::attention,
              {path + ".self_attn", inner, dims.heads, dims.heads, inner / dims.heads});
  weights.linear(Part::attention,
                 {{path + ".self_attn", "o_proj", {}}, inner, {dims.hidden}, Split::inputs});
  const int64_t intermediate =
      config.integer({"intermediate_size"}, 4 * dims.hidden, {1, int64_t{1} << 31});
  add_mlp(build, path + ".feed_forward", intermediate, Part::mlp,
          build.bias(build.family.mlp_bias));
  build.shape.activation.intermediate = intermediate / weights.ranks();
  build.norm(2 * dims.hidden);
  build.norm(dims.hidden);
}

/// Low-rank factors that tell one hybrid layer from another.
void add_adapter(Builder& build, const std::string& path, int64_t inputs,
                 std::vector<int64_t> outputs) {
  const int64_t rank = build.config.integer({"adapter_rank"}, 128, {1, 1 << 20});
  build.weights.linear(Part::attention, {{path, "A", {}}, inputs, {rank}});
  build.weights.linear(Part::attention, {{path, "B", {}}, rank, std::move(outputs)});
}

void add_shared_attention(Builder& build, int64_t layer, int64_t hybrids_before) {
  const ConfigView& config = build.config;
  const TextDims& dims = build.dims;
  constexpr Bounds kCount{1, 1 << 20};
  const int64_t size =
      config.integer({"attention_head_dim"}, 2 * dims.hidden / dims.heads, {1, 1 << 20});
  const int64_t inner = dims.heads * size;
  if (hybrids_before < config.integer({"num_mem_blocks"}, 1, kCount)) {
    add_shared_block(build, inner);
  }
  const std::string path = build.layer_path(layer) + ".shared_transformer";
  if (config.flag({"use_shared_attention_adapter"}, false)) {
    for (const char* which : {"q", "k", "v"}) {
      add_adapter(build, path + ".self_attn.linear_" + which + "_adapter", inner, {inner});
    }
  }
  const int64_t intermediate =
      config.integer({"intermediate_size"}, 4 * dims.hidden, {1, int64_t{1} << 31});
  add_adapter(build, path + ".feed_forward.gate_up_proj_adapter", dims.hidden,
              {intermediate, intermediate});
  build.weights.linear(
      Part::attention,
      {{build.layer_path(layer), "linear", {}}, dims.hidden, {dims.hidden}, Split::none});
  if (config.flag({"use_mem_rope"}, false)) add_rotary(build, size, "");
  build.weights.attention_buffers();
  const int64_t own = build.weights.share(dims.heads, "the number of attention heads");
  build.shape.kv_layers.push_back(attention_cache(build, own, size, size, 0, KvKind::full));
  build.shape.attention_token_bytes = build.shape.kv_layers.back().token_bytes;
}

}  // namespace

void add_shared_layer(Builder& build, int64_t layer) {
  const std::vector<std::string> types = build.config.texts({"layers_block_type"});
  const auto i = static_cast<size_t>(layer);
  if (i < types.size() && types[i] == "hybrid") {
    const auto before = std::count(types.begin(), types.begin() + layer, "hybrid");
    add_shared_attention(build, layer, before);
  }
  add_mamba2(build, build.layer_path(layer) + ".mixer");
}

}  // namespace plimsoll::plan
