// Heads of models that answer with vectors or classes, in place of an output projection: they are
// held in float32 whatever the model's dtype.
#include <algorithm>
#include <array>
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

/// Weights of tokens, and vectors of tokens.
void add_token_heads(Builder& build) {
  const int64_t hidden = build.dims.hidden;
  add_dense(build, hidden, 1, kFloat32, true);
  add_dense(build, hidden, hidden, kFloat32, true);
}

/// One layer that ranks divide between them.
void add_value_head(Builder& build) {
  const int64_t own = build.weights.share(build.dims.hidden, "the reward head's width");
  add_dense(build, own, 1, kFloat32, false);
}

void add_classes(Builder& build) {
  add_dense(build, build.dims.hidden, labels_of(build, 2), kFloat32, false);
}

/// Classes of vLLM's with a head of their own; others have it by the ending of their names.
struct NamedHead {
  std::string_view architecture;
  void (*add)(Builder& build);
  bool beside_output = false;  // the output projection stays
  bool each_step = false;      // classes of each step, for which prompts are read as a whole
};
constexpr auto kNamedHeads = std::to_array<NamedHead>({
    {"BertForMaskedLM", add_masked_head},
    {"BertSpladeSparseEmbeddingModel", add_masked_head},
    {"BgeM3EmbeddingModel", add_token_heads},
    {"InternLM2ForRewardModel", add_value_head},
    {"JambaForSequenceClassification", add_classes, true},
    {"Qwen2ForProcessRewardModel", [](Builder& build) { add_reward_layers(build, 2); }, false,
     true},
    {"Qwen2ForRewardModel", [](Builder& build) { add_reward_layers(build, 1); }},
});

const NamedHead* find_head(std::string_view architecture) {
  const auto* const row = std::ranges::find(kNamedHeads, architecture, &NamedHead::architecture);
  return row == kNamedHeads.end() ? nullptr : row;
}

}  // namespace

bool classifies_steps(std::string_view architecture) {
  const NamedHead* head = find_head(architecture);
  return head != nullptr && head->each_step;
}

bool add_pooling_head(Builder& build) {
  const std::string& name = build.shape.architecture;
  const bool encoder = build.family.pooling;
  if (const NamedHead* head = find_head(name)) {
    head->add(build);
    return !head->beside_output;
  }
  if (name.ends_with("ForTokenClassification")) {
    add_classifier(build, true);
  } else if (encoder && name.ends_with("ForSequenceClassification")) {
    add_classifier(build, false);
  } else if (name.ends_with("RewardModel")) {
    build.weights.plain(Part::lm_head, Amount{build.dims.hidden} * labels_of(build, 1));
  } else if (name.find("SequenceClassification") != std::string::npos) {
    add_classes(build);
  } else {
    return encoder;
  }
  return true;
}

}  // namespace plimsoll::vllm
