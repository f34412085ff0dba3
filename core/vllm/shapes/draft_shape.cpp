// Heads that draft for a Llama-like model from its hidden states: EAGLE and EAGLE-3
// (vllm/model_executor/models/llama_eagle.py, llama_eagle3.py).
#include <algorithm>

#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

/// EAGLE-3's projection of several layers' states, and the output of its own vocabulary.
void add_third_ends(Builder& build, int64_t target_vocabulary) {
  const ConfigView& config = build.config;
  const ConfigView eagle = config.child({"eagle_config"});
  RankWeights& weights = build.weights;
  const int64_t hidden = build.dims.hidden;
  if (eagle.flag({"use_aux_hidden_state"}, true)) {
    const auto listed =
        static_cast<int64_t>(eagle.integers({"eagle_aux_hidden_state_layer_ids"}).size());
    constexpr int64_t kUsualStates = 3;
    const int64_t states =
        config.integer({"num_aux_hidden_states"}, listed > 0 ? listed : kUsualStates, {1, 1 << 10});
    const int64_t inputs = states * config.integer({"target_hidden_size"}, hidden, {1, 1 << 24});
    weights.linear(Part::mlp, {{"", "fc", {}}, inputs, {hidden}, Split::none});
    const bool before = eagle.flag({"norm_before_fc"}, config.flag({"norm_before_fc"}, false));
    if (before) build.norm(inputs);
    if (config.flag({"fc_norm"}, false)) build.norm(inputs);
  }
  build.norm(hidden);
  const int64_t words = config.integer({"draft_vocab_size"}, build.dims.vocabulary, {1, 1 << 28});
  weights.lm_head(words, hidden, false);
  constexpr int64_t kWordId = 8;  // int64
  if (words != target_vocabulary) weights.parameters(Part::lm_head, Amount{words} * kWordId);
}

}  // namespace

ModelShape build_draft_head(const ConfigView& config, bool third, const DraftTarget& target,
                            const ShapeOptions& options, RankWeights& weights) {
  ModelShape shape;
  static constexpr Family kHead{
      .architecture = "", .qkv_bias = kLlamaBias, .out_bias = kEitherBias, .mlp_bias = kMlpBias};
  Builder build{config, config, options, kHead, weights, shape, read_dims(config, kHead)};
  const int64_t hidden = build.dims.hidden;
  build.dims.positions = std::max(build.dims.positions, target.max_model_len);
  for (int64_t layer = 0; layer < build.dims.layers; ++layer) {
    // EAGLE's first layer begins without a norm; EAGLE-3 norms embeddings and states apart.
    const int64_t norms = third ? 3 : (layer == 0 ? 1 : 2);
    build.norm(norms * hidden);
    add_attention(build, layer);
    add_feed_forward(build, layer);
    if (!third || layer > 0) continue;
    const int64_t own = weights.share(build.dims.heads, "the number of attention heads") +
                        2 * weights.kv_heads(build.dims.kv_heads);
    weights.plain(Part::attention, Amount{hidden} * own * build.dims.head_size);
  }
  if (third) {
    add_third_ends(build, target.vocabulary);
  } else {
    weights.linear(Part::mlp, {{"", "fc", {}}, 2 * hidden, {hidden}, Split::none});
  }
  return shape;
}

}  // namespace plimsoll::vllm
