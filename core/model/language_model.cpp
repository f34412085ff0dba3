#include "model/language_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace plimsoll::model {
namespace {

constexpr const char* kModule = "language_model.";

}  // namespace

bool is_tied_anywhere(const ConfigReader& config) {
  constexpr const char* kKey = "tie_word_embeddings";
  return config.whole().boolean({kKey}, false) ||
         config.reading(config.json()).boolean({kKey}, false);
}

ModelSpec make_language_model(const ConfigReader& config, const TextPart& text,
                              ModelSpec (*make)(const ConfigReader&)) {
  ModelSpec spec = make(config.reading(text.config));
  for (WeightSpec& weight : spec.weights) {
    weight.name = kModule + weight.name;
    for (Part& part : weight.parts) part.tensor = text.tensors + part.tensor;
  }
  for (StackedTensor& stack : spec.stacked_tensors) {
    stack.tensor = text.tensors + stack.tensor;
    if (!stack.name.empty()) stack.name = text.tensors + stack.name;
  }
  if (spec.tied_head) {
    spec.tied_head->table = kModule + spec.tied_head->table;
    spec.tied_head->head = kModule + spec.tied_head->head;
    spec.tied_head->tensor = text.tensors + spec.tied_head->tensor;
  }
  for (auto& [first, second] : spec.tensor_prefixes) {
    first.insert(0, text.tensors);
    second.insert(0, text.tensors);
  }
  return spec;
}

const Family& find_text_family(const ConfigReader& text) {
  const auto names = text.texts("architectures");
  const std::string type = text.text({"model_type"}, "");
  for (const Family& family : families()) {
    if (family.kind != FamilyKind::text || !family.is_served()) continue;
    const bool named = names && !names->empty() ? names->front() == family.architecture
                                                : !type.empty() && type == family.model_type;
    if (named) return family;
  }
  const char* const key = names && !names->empty() ? "architectures" : "model_type";
  text.refuse(key, "the name of a text model that runs by itself, which this one does not yet");
}

void add_newer_spellings(ModelSpec& spec) {
  // Transformers 5 has no module between the tower and its parts.
  spec.tensor_prefixes.emplace_back("vision_tower.vision_model.", "model.vision_tower.");
  spec.tensor_prefixes.emplace_back("vision_tower.vision_model.", "vision_tower.");
  for (const char* part : {"vision_tower.", "multi_modal_projector."}) {
    spec.tensor_prefixes.emplace_back(part, std::string("model.") + part);
  }
  spec.tensor_prefixes.emplace_back("language_model.model.", "model.language_model.");
  spec.tensor_prefixes.emplace_back("language_model.lm_head.", "lm_head.");
}

int32_t read_image_token(const ConfigReader& config, ConfigReader::Keys keys) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(config.integer(keys, -1, {-1, kMost}));
}

void ignore_tensors(ModelSpec& spec, const std::string& prefix) {
  spec.ignored_prefixes.push_back(prefix);
  spec.ignored_prefixes.push_back("model." + prefix);
}

}  // namespace plimsoll::model
