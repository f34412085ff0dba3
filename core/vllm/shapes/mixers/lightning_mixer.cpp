// Lightning attention of Ling 2.5.
#include "base/error.h"
#include "vllm/shapes/mixers/recurrent.h"

namespace plimsoll::vllm {

void add_grouped_lightning(Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  const int64_t group = config.integer({"layer_group_size"}, 1, {0, 1 << 20});
  if (group == 0 || (layer + 1) % group == 0) {
    add_latent_attention(build, layer);
    return;
  }
  RankWeights& weights = build.weights;
  const int64_t norm_groups = config.integer({"group_norm_size"}, 1, {1, 1 << 20});
  if (norm_groups % weights.ranks() != 0) {
    fail(ExitCode::usage,
         "group_norm_size ({}) must be divisible by tp_size ({}). Use another "
         "--tensor-parallel-size.",
         norm_groups, weights.ranks());
  }
  const int64_t heads = build.dims.heads;
  const int64_t size = build.dims.head_size;
  const int64_t hidden = build.dims.hidden;
  const int64_t inner = heads * size;
  const bool bias = config.flag({"use_bias"}, false);
  const std::string path = build.layer_path(layer) + ".self_attn";
  weights.linear(Part::attention, {{path, "query_key_value", {}},
                                   hidden,
                                   {inner, inner, inner},
                                   Split::outputs,
                                   bias || config.flag({"use_qkv_bias"}, false)});
  if (config.flag({"use_qk_norm"}, false)) weights.plain(Part::attention, 2 * size);
  weights.linear(Part::attention, {{path, "g_proj", {}}, hidden, {inner}});
  weights.linear(Part::attention, {{path, "dense", {}}, inner, {hidden}, Split::inputs, bias});
  const int64_t own = weights.share(heads, "the number of attention heads");
  weights.plain(Part::attention, own * size);  // norm of the output
  RotaryTable table = rotary_table(build, size, "");
  table.key += "/halves";  // latent attention rotates pairs
  weights.rotary(table);
  add_state(build, Amount{own} * size * size * build.options.element, "lightning");
}

}  // namespace plimsoll::vllm
