#include "quantization/weight_modules.h"

#include <string_view>
#include <utility>

namespace plimsoll::quantization {
namespace {

std::string_view module_of(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

std::string leaf_of(std::string_view name) {
  return std::string(name.substr(name.rfind('.') + 1));
}

ModuleName split_name(const std::string& module) {
  const size_t dot = module.rfind('.');
  if (dot == std::string::npos) return {"", module, {}};
  return {module.substr(0, dot), module.substr(dot + 1), {}};
}

}  // namespace

ModuleName module_of_weight(const model::WeightSpec& weight) {
  if (weight.is_stack()) {
    // Experts: "...mlp.experts.routed_experts.w13_weight" is the module "...mlp.experts".
    return split_name(canonical_name(module_of(module_of(weight.name))));
  }
  // vLLM holds some modules elsewhere than where it looks for their schemes (shared experts within
  // the experts, say); it looks where the checkpoint has them.
  ModuleName name = split_name(canonical_name(module_of(weight.name)));
  for (const model::Part& part : weight.parts) {
    const std::string stored = canonical_name(module_of(part.tensor));
    if (name.shards.empty()) name.path = split_name(stored).path;
    std::string leaf = leaf_of(stored);
    if (name.shards.empty() || name.shards.back() != leaf) name.shards.push_back(std::move(leaf));
  }
  if (name.shards.size() != 1) return name;
  name.leaf = name.shards.front();
  name.shards.clear();
  return name;
}

ModuleName module_of_experts(const model::WeightSpec& up, const model::WeightSpec& down) {
  ModuleName name = module_of_weight(up);
  for (const model::Part* part : {&up.parts[0], &up.parts[1], &down.parts[0]}) {
    name.shards.push_back(leaf_of(module_of(part->tensor)));
  }
  return name;
}

}  // namespace plimsoll::quantization
