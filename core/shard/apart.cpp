#include "shard/apart.h"

#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "shard/renumber.h"

namespace plimsoll::shard {
namespace {

using model::WeightId;
using model::WeightSpec;

/// The fused gates and ups of MLPs.
std::set<WeightId> fused_of(const model::ModelSpec& spec) {
  std::set<WeightId> fused;
  for (const model::LayerSpec& layer : spec.layers) {
    const bool experts = layer.mlp.kind == model::MlpKind::experts;
    fused.insert(experts ? layer.mlp.shared.up.weight : layer.mlp.up.weight);
  }
  fused.erase(model::kNoWeight);
  return fused;
}

/// The weight of one part, named after the part's tensor in the module of the fused weight.
WeightSpec weight_of(const WeightSpec& fused, const model::Part& part) {
  const std::string leaf = part.tensor.substr(part.tensor.rfind('.', part.tensor.rfind('.') - 1));
  const size_t module = fused.name.rfind('.', fused.name.rfind('.') - 1);
  WeightSpec one = fused;
  one.name = fused.name.substr(0, module) + leaf;
  one.shape = {part.rows(), fused.columns()};
  one.split = model::Split::column;
  one.parts = {part};
  return one;
}

}  // namespace

void set_apart(model::ModelSpec& spec) {
  if (!spec.vllm.gate_apart) return;
  if (!spec.quantization.empty()) {
    fail(ExitCode::checkpoint_unusable, "the shards of a quantized {} are not known here",
         spec.architecture);
  }
  const std::set<WeightId> fused = fused_of(spec);
  std::vector<WeightSpec> weights;
  std::vector<WeightId> now;
  for (size_t i = 0; i < spec.weights.size(); ++i) {
    now.push_back(static_cast<WeightId>(weights.size()));
    if (fused.contains(static_cast<WeightId>(i))) {
      for (const model::Part& part : spec.weights[i].parts) {
        weights.push_back(weight_of(spec.weights[i], part));
      }
    } else {
      weights.push_back(std::move(spec.weights[i]));
    }
  }
  spec.weights = std::move(weights);
  renumber(spec, now);
}

}  // namespace plimsoll::shard
