// What models that answer with vectors or classes have in place of an output projection: heads are
// held in float32 whatever the model's dtype.
#include <string>
#include <string_view>

#include "base/json.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

constexpr Bounds kLabels{1, 1 << 20};

/// transformers counts the labels by their names, and assumes two.
int64_t labels_of(const Builder& build, int64_t fallback) {
  const ConfigView names = build.config.child({"id2label"});
  if (!names.json().empty()) return static_cast<int64_t>(names.json().size());
  return build.config.integer({"num_labels"}, fallback, kLabels);
}

/// A dense layer of `inputs` and its bias.
void add_dense(Builder& build, int64_t inputs, int64_t outputs, int64_t element, bool bias) {
  const Amount rows = Amount{inputs} + (bias ? 1 : 0);
  build.weights.parameters(Part::lm_head, rows * outputs * element);
}

/// BERT's head over masked tokens: a transform, a norm, and a decoder that is held whole.
void add_masked_head(Builder& build) {
  const int64_t hidden = build.dims.hidden;
  add_dense(build, hidden, hidden, build.options.element, true);
  build.weights.plain(Part::lm_head, 2 * hidden);
  add_dense(build, hidden, build.dims.vocabulary, build.options.element, true);
}

/// A dense layer before the classes, of each sequence or of each token.
void add_classifier(Builder& build, bool each_token) {
  const int64_t hidden = build.dims.hidden;
  if (build.family.normed_classifier) {
    const int64_t element = each_token ? build.options.element : kFloat32;
    add_dense(build, hidden, hidden, element, build.config.flag({"classifier_bias"}, false));
    const bool bias = build.config.flag({"norm_bias"}, false);
    build.weights.parameters(Part::lm_head, Amount{hidden} * (bias ? 2 : 1) * element);
  } else if (!each_token) {
    add_dense(build, hidden, hidden, kFloat32, true);
  }
  add_dense(build, hidden, labels_of(build, 2), kFloat32, true);
}

/// Two layers that ranks divide between them.
void add_reward_layers(Builder& build, int64_t labels) {
  const int64_t hidden = build.dims.hidden;
  const int64_t own = build.weights.share(hidden, "the reward head's width");
  add_dense(build, hidden, own, kFloat32, true);
  add_dense(build, own, labels, kFloat32, false);
  build.weights.parameters(Part::lm_head, Amount{labels} * kFloat32);
}

}  // namespace

bool add_pooling_head(Builder& build) {
  const std::string& name = build.shape.architecture;
  const int64_t hidden = build.dims.hidden;
  const bool encoder = build.family.pooling;
  if (name == "BertForMaskedLM" || name == "BertSpladeSparseEmbeddingModel") {
    add_masked_head(build);
  } else if (name == "BgeM3EmbeddingModel") {  // weights of tokens, and vectors of tokens
    add_dense(build, hidden, 1, kFloat32, true);
    add_dense(build, hidden, hidden, kFloat32, true);
  } else if (name.ends_with("ForTokenClassification")) {
    add_classifier(build, true);
  } else if (encoder && name.ends_with("ForSequenceClassification")) {
    add_classifier(build, false);
  } else if (name == "Qwen2ForRewardModel" || name == "Qwen2ForProcessRewardModel") {
    add_reward_layers(build, name == "Qwen2ForRewardModel" ? 1 : 2);
  } else if (name == "InternLM2ForRewardModel") {
    add_dense(build, build.weights.share(hidden, "the reward head's width"), 1, kFloat32, false);
  } else if (name.ends_with("RewardModel")) {
    build.weights.plain(Part::lm_head, Amount{hidden} * labels_of(build, 1));
  } else if (name.find("SequenceClassification") != std::string::npos) {
    add_dense(build, hidden, labels_of(build, 2), kFloat32, false);
    return !name.starts_with("Jamba");  // Jamba keeps its output projection
  } else {
    return encoder;
  }
  return true;
}

}  // namespace plimsoll::vllm
