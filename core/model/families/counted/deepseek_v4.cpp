// DeepSeek-V4: keys and values of the distant past are compressed 4 or 128 to one, the near past is
// kept in a window, and residual streams are mixed by hyper-connections. `plan` alone counts it.
#include <algorithm>

#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// 1, 4 or 128 for each layer.
std::vector<int64_t> read_ratios(const ConfigReader& config, int64_t layers) {
  constexpr const char* kRatios = "compress_ratios";
  std::vector<int64_t> ratios(static_cast<size_t>(layers), 1);
  const Json* listed = config.find({kRatios});
  if (listed == nullptr) return ratios;
  if (!listed->is_array()) config.refuse(kRatios, "a list of 0, 4 and 128");
  for (size_t i = 0; i < std::min(ratios.size(), listed->size()); ++i) {
    const Json& ratio = (*listed)[i];
    if (ratio != 0 && ratio != 1 && ratio != kOverlapped && ratio != 128) {
      config.refuse(kRatios, "0, 4 or 128 for each layer");
    }
    ratios[i] = std::max<int64_t>(1, ratio.get<int64_t>());
  }
  return ratios;
}

Mixture read_hashed_mixture(const ConfigReader& config, int64_t layers) {
  const MlpSpec missing{.intermediate = config.required({"moe_intermediate_size"}, kWidths)};
  Mixture mixture = read_mixture(config, layers, missing);
  mixture.sizes.shared.intermediate =
      config.integer({"n_shared_experts"}, 0, {0, kMostExperts}) * missing.intermediate;
  mixture.hashed = config.integer({"num_hash_layers"}, 0, {.least = 0});
  mixture.names = names_within("ffn");
  mixture.names.choice_bias.engine = mixture.names.choice_bias.stored = "ffn.gate.bias";
  return mixture;
}

}  // namespace

ModelSpec make_deepseek_v4(const ConfigReader& config) {
  constexpr IntegerRange kIndex{1, 1 << 24};
  Decoder decoder{.family = "deepseek_v4"};
  read_without_positions(config, decoder);
  const Sizes& sizes = decoder.sizes;
  decoder.tied = false;
  decoder.names.attention = "attn";
  decoder.compressed = Compressed{.ratios = read_ratios(config, sizes.layers),
                                  .window = config.integer({"sliding_window"}, 128),
                                  .q_rank = config.required({"q_lora_rank"}, kWidths),
                                  .out_rank = config.required({"o_lora_rank"}, kWidths),
                                  .out_groups = config.integer({"o_groups"}, 8, kIndex),
                                  .index_heads = config.integer({"index_n_heads"}, 64, kIndex),
                                  .index_dim = config.integer({"index_head_dim"}, 128, kIndex)};
  const auto rotated = static_cast<double>(config.integer({"qk_rope_head_dim"}, 64, kHeadDims));
  decoder.ropes.assign(2,
                       read_rope(config, {.head_dim = sizes.head_dim,
                                          .max_position = sizes.max_position,
                                          .share_key = "",
                                          .share = rotated / static_cast<double>(sizes.head_dim)}));
  decoder.ropes.back().spec.vllm.theta = config.positive({"compress_rope_theta"}, 160000);
  decoder.mixture = read_hashed_mixture(config, sizes.layers);
  const int64_t streams = config.integer({"hc_mult"}, 4, {1, 1 << 10});
  mix_streams(streams, 2 + streams, 3, decoder);
  decoder.vllm.predicted_streams = streams;
  decoder.vllm.keeps_streams_before = VllmVersion{0, 27, 0};
  decoder.vllm.whole_shared = VllmVersion{0, 20, 0};
  decoder.vllm.knows_stage = decoder.vllm.float_rotary = decoder.vllm.own_expert_names = true;
  return build(decoder);
}

}  // namespace plimsoll::model
