// Heads of models that answer with vectors or classes, in place of an output projection: they are
// held in float32 whatever the model's dtype.
#include <string>
#include <string_view>

#include "base/json.h"
#include "model/families/family.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

using model::PoolingHead;

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

bool has_class_for_each_token(std::string_view architecture) {
  return architecture.ends_with("ForTokenClassification");
}

/// A dense layer before the classes of each sequence.
void add_classifier(Builder& build) {
  const int64_t hidden = build.dims.hidden;
  if (!has_class_for_each_token(build.shape.architecture))
    add_dense(build, hidden, hidden, kFloat32, true);
  add_dense(build, hidden, labels_of(build, 2), kFloat32, true);
}

/// A dense layer and a norm before the classes, of each sequence or of each token.
void add_normed_classifier(Builder& build) {
  const int64_t hidden = build.dims.hidden;
  const bool each_token = has_class_for_each_token(build.shape.architecture);
  const int64_t element = each_token ? build.options.element : kFloat32;
  add_dense(build, hidden, hidden, element, build.config.flag({"classifier_bias"}, false));
  const bool bias = build.config.flag({"norm_bias"}, false);
  build.weights.parameters(Part::lm_head, Amount{hidden} * (bias ? 2 : 1) * element);
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

/// Adds the head that the architecture's row names. Returns false where its name says.
bool add_named_head(PoolingHead head, Builder& build) {
  switch (head) {
    case PoolingHead::by_name:
      return false;
    case PoolingHead::masked:
      add_masked_head(build);
      break;
    case PoolingHead::tokens:
      add_token_heads(build);
      break;
    case PoolingHead::value:
      add_value_head(build);
      break;
    case PoolingHead::classes:
      add_classes(build);
      break;
    case PoolingHead::normed:
      add_normed_classifier(build);
      break;
    case PoolingHead::reward:
      add_reward_layers(build, 1);
      break;
    case PoolingHead::steps:
      add_reward_layers(build, 2);
      break;
  }
  return true;
}

PoolingHead head_of(std::string_view architecture) {
  const model::Family* const row = model::find_architecture(architecture);
  return row == nullptr ? PoolingHead::by_name : row->head;
}

}  // namespace

bool classifies_steps(std::string_view architecture) {
  return head_of(architecture) == PoolingHead::steps;
}

bool add_pooling_head(Builder& build) {
  if (build.options.converts == Converts::to_classes) add_classes(build);
  if (build.options.converts != Converts::nothing) return true;
  const std::string& name = build.shape.architecture;
  const bool encoder = build.shape.encoder;
  const PoolingHead head = head_of(name);
  if (add_named_head(head, build)) return head != PoolingHead::classes;
  if (has_class_for_each_token(name) || (encoder && name.ends_with("ForSequenceClassification"))) {
    add_classifier(build);
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
