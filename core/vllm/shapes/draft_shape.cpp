// Heads that draft for a Llama-like model from its hidden states: EAGLE and EAGLE-3
// (vllm/model_executor/models/llama_eagle.py, llama_eagle3.py).
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "model/families/family.h"
#include "vllm/shapes/builder.h"
#include "vllm/shapes/described/described_model.h"

namespace plimsoll::vllm {
namespace {

/// Architecture of a head's layers; empty: it is none of these, or has a class of its own.
std::string_view find_head_layers(std::string_view architecture) {
  const model::Family* const row = model::find_architecture(architecture);
  return row == nullptr ? "" : row->draft_layers;
}

/// Describes the head's layers by their family. A refusal names the head's own file, since the
/// model has a config.json too.
model::ModelSpec describe_layers(const ConfigView& config, const nlohmann::json& layers) {
  try {
    return *model::describe_language_model(find_head_layers(architecture_name(config)), layers);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", config.path(), error.what());
  }
}

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
  weights.lm_head(words, hidden);
  constexpr int64_t kWordId = 8;  // int64
  if (words != target_vocabulary) weights.parameters(Part::lm_head, Amount{words} * kWordId);
}

}  // namespace

bool is_draft_head(const ConfigView& config) {
  return !find_head_layers(architecture_name(config)).empty();
}

ModelShape build_draft_head(const ConfigView& config, bool third, const DraftTarget& target,
                            const ShapeOptions& options, RankWeights& weights) {
  constexpr const char* kPositions = "max_position_embeddings";
  nlohmann::json layers = config.json();
  layers[kPositions] = std::max(config.integer({kPositions}, 0), target.max_model_len);
  const DescribedModel model(describe_layers(config, layers));
  ModelShape shape;
  Builder build{config, config, options, weights, shape, dims_of(model.spec)};
  const int64_t hidden = build.dims.hidden;
  // Neither the embedding nor what stands behind the layers.
  const model::StageOfMany between{
      .layers = {0, build.dims.layers}, .first = false, .last = false, .has_head = false};
  add_layers(model, between, build);
  count_table(model, between, build);
  if (!third) {
    weights.plain(Part::norm, Amount{0} - hidden);  // its first layer begins without a norm
    weights.linear(Part::mlp, {{"", "fc", {}}, 2 * hidden, {hidden}, Split::none});
    return shape;
  }
  // Embeddings and states have a norm each; q, k and v of the first layer read both side by side.
  build.norm(build.dims.layers * hidden);
  const int64_t own = weights.share(build.dims.heads, "the number of attention heads") +
                      2 * weights.kv_heads(build.dims.kv_heads);
  weights.plain(Part::attention, Amount{hidden} * own * build.dims.head_size);
  add_third_ends(build, target.vocabulary);
  return shape;
}

}  // namespace plimsoll::vllm
