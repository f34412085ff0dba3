// Jamba: Mamba with norms on its choices, attention without positions in some layers, experts in
// every other one.
#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_jamba(const ConfigReader& config) {
  Decoder decoder{.family = "jamba"};
  read_common(config, decoder);
  const Sizes& sizes = decoder.sizes;
  decoder.ropes.clear();
  const auto turn = [&](const char* period, const char* offset, IntegerRange range,
                        int64_t missing_period, int64_t missing_offset) {
    const int64_t every = config.integer({period}, missing_period, range);
    const int64_t from = config.integer({offset}, missing_offset, {.least = 0});
    return [=](int64_t layer) { return layer % every == from; };
  };
  const auto attends = turn("attn_layer_period", "attn_layer_offset", {1, 4096}, 8, 4);
  const auto chooses = turn("expert_layer_period", "expert_layer_offset", {1, 4096}, 2, 1);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    decoder.parts.push_back({.attention = attends(i), .recurrent = !attends(i)});
  }
  const int64_t expand = config.integer({"mamba_expand"}, 2, {1, 65536});
  decoder.recurrent = read_mamba1(config, expand * sizes.hidden, sizes.hidden);
  RecurrentTable& table = *decoder.recurrent;
  table.module = "mamba";
  table.choice_norms = table.choice_weights = true;
  table.sizes.step_norm = table.sizes.b_norm =
      table.sizes.c_norm = {.epsilon = decoder.norm.epsilon};
  decoder.mixture = read_mixture(config, sizes.layers, {.intermediate = sizes.intermediate});
  Mixture& mixture = *decoder.mixture;
  mixture.sizes.router.normalize = false;
  for (int64_t i = 0; i < sizes.layers; ++i) {
    mixture.sparse[static_cast<size_t>(i)] = chooses(i) && mixture.sizes.experts > 1;
  }
  mixture.names.router = {"feed_forward.router", "feed_forward.router"};
  mixture.names.experts = {"feed_forward.experts.routed_experts", "feed_forward.experts"};
  decoder.names.final_norm = "final_layernorm";
  decoder.names.engine_attention = ".";
  decoder.names.mlp = "feed_forward";
  decoder.names.mlp_norm = "pre_ff_layernorm";
  decoder.vllm.idle_scales = true;
  return build(decoder);
}

}  // namespace plimsoll::model
