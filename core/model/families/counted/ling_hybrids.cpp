// Ling 2.5 and 3: latent attention in the last layer of each group of layers; in the others
// lightning attention, or the delta rule with a decay for each channel.
#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/mixtures/ling.h"

namespace plimsoll::model {
namespace {

/// Sizes, latents and their RoPE, before that of a whole head. `rest`: the layers behind the last
/// whole group are attention too.
Decoder read_grouped(const ConfigReader& config, const char* family, bool rest) {
  Decoder decoder{.family = family};
  read_with_columns(config, decoder);
  const Sizes& sizes = decoder.sizes;
  decoder.tied = false;
  decoder.latent = Latent{.attention = read_latent(config, sizes.heads, 0)};
  AttentionSpec& attention = decoder.latent->attention;
  attention.rope_pairs = RopePairs::neighbours;
  decoder.ropes.insert(decoder.ropes.begin(),
                       read_rope(config, {.head_dim = attention.latent.rotated,
                                          .max_position = sizes.max_position,
                                          .share_key = ""}));
  decoder.mlp_bias = config.boolean({"use_bias"}, false);
  decoder.vllm.knows_stage = true;
  const int64_t group = config.integer({"layer_group_size"}, 1, {0, 1 << 20});
  std::vector<bool> attends = sparse_every(sizes.layers, std::max<int64_t>(group, 1));
  const int64_t grouped = rest && group > 0 ? sizes.layers / group * group : sizes.layers;
  std::fill(attends.begin() + grouped, attends.end(), true);
  decoder.parts = attention_or_recurrent(attends);
  return decoder;
}

}  // namespace

ModelSpec make_ling_2_5(const ConfigReader& config) {
  Decoder decoder = read_grouped(config, "ling_2_5", false);
  const Sizes& sizes = decoder.sizes;
  RecurrentTable& table = decoder.recurrent.emplace(RecurrentTable{.module = "self_attn"});
  table.fused = true;
  table.qk_norm = config.boolean({"use_qk_norm"}, false);
  table.out_bias = decoder.mlp_bias;
  table.bias = table.out_bias || config.boolean({"use_qkv_bias"}, false);
  RecurrentSpec& mixer = table.sizes;
  mixer.kind = RecurrentKind::linear;
  mixer.heads = mixer.groups = sizes.heads;
  mixer.head_dim = mixer.state = sizes.head_dim;
  mixer.rope = 1;
  mixer.norm.present = true;
  mixer.norm_groups = config.integer({"group_norm_size"}, 1, {1, 1 << 20});
  decoder.vllm.norm_groups_for_ranks = true;
  decoder.mixture =
      read_ling_mixture(config, sizes.layers, {.biased = false, .shared = 0, .dense = 0});
  if (config.text({"router_dtype"}, "fp32") == "fp32") decoder.mixture->router_dtype = DType::f32;
  return build(decoder);
}

ModelSpec make_ling_3(const ConfigReader& config) {
  Decoder decoder = read_grouped(config, "ling_3", true);
  const Sizes& sizes = decoder.sizes;
  const int64_t taps = config.integer({"short_conv_kernel_size"}, 4, {1, kMostTaps});
  decoder.recurrent = channel_delta_table(sizes.heads, sizes.head_dim, taps, decoder.norm.epsilon);
  decoder.recurrent->sizes.rank = 0;
  const std::string gate = config.text({"gated_attention_proj_granularity_type"}, "");
  decoder.gate_by_head = gate == "head_wise";
  if (decoder.gate_by_head || gate == "element_wise") decoder.names.attention_gate = "g_proj";
  decoder.mixture =
      read_ling_mixture(config, sizes.layers, {.shared = 0, .dense = 0, .together = true});
  Mixture& mixture = *decoder.mixture;
  mixture.router_dtype = DType::f32;
  mixture.sparse = sparse_after_dense(config, sizes.layers, 0);
  if (decoder.mlp_bias && mixture.sparse.back()) {
    fail(ExitCode::usage,
         "When not reduce the results, adding bias to the results can lead to incorrect results: "
         "vLLM refuses \"use_bias\" beside shared experts");
  }
  return build(decoder);
}

}  // namespace plimsoll::model
