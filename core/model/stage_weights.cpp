#include "model/stage_weights.h"

#include <algorithm>
#include <string>

namespace plimsoll::model {

std::vector<int64_t> layers_of_weights(const ModelSpec& spec) {
  std::vector<int64_t> layers;
  layers.reserve(spec.weights.size());
  for (const WeightSpec& weight : spec.weights) {
    int64_t layer = -1;
    size_t begin = 0;
    while (begin < weight.name.size() && layer < 0) {
      const size_t end = std::min(weight.name.find('.', begin), weight.name.size());
      const std::string word = weight.name.substr(begin, end - begin);
      if (word.find_first_not_of("0123456789") == std::string::npos) layer = std::stoll(word);
      begin = end + 1;
    }
    if (weight.name.find(".cross_decoder.") != std::string::npos) {
      layer += spec.vllm.renumbered_from;
    }
    layers.push_back(layer);
  }
  return layers;
}

StageWeights::StageWeights(const ModelSpec& spec)
    : spec_(spec), layer_of_(layers_of_weights(spec)) {
  const auto first = std::ranges::find_if(layer_of_, [](int64_t layer) { return layer >= 0; });
  first_of_layers_ = static_cast<WeightId>(first - layer_of_.begin());
}

bool StageWeights::holds(WeightId id, const StageOfMany& stage) const {
  const int64_t layer = layer_of_[static_cast<size_t>(id)];
  if (layer >= 0) return layer >= stage.layers.first && layer < stage.layers.end;
  const LayerInputs& inputs = spec_.layer_inputs;
  const bool is_input =
      id == inputs.table || id == inputs.projection.weight || id == inputs.norm.weight;
  if (inputs.width > 0 && is_input) return stage.first;
  if (!spec_.vllm.knows_stage) return true;
  if (id == spec_.head && spec_.vllm.head_everywhere) return true;
  if (!is_before_layers(id)) return stage.last;
  if (id == spec_.embedding && spec_.vllm.table_everywhere) return true;
  // A stage with a tied head keeps the token table.
  return stage.first || (stage.last && spec_.embedding == spec_.head);
}

}  // namespace plimsoll::model
