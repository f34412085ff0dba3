#include "shard/left_out.h"

#include <algorithm>
#include <set>

namespace plimsoll::shard {

using model::Kept;
using model::WeightSpec;

bool is_passed_over(const model::ModelSpec& spec, const WeightSpec& weight) {
  if (!weight.zeros_if_absent) return true;
  return std::ranges::any_of(weight.parts, [&](const model::Part& part) {
    return std::ranges::any_of(spec.ignored_suffixes, [&](const std::string& suffix) {
      return part.tensor.ends_with(suffix);
    });
  });
}

std::vector<std::string> tensors_left_out(const model::ModelSpec& spec) {
  std::set<std::string> held;  // apart, where `run` has them fused
  for (const WeightSpec& weight : spec.weights) {
    if (weight.kept == Kept::in_run) continue;
    for (const model::Part& part : weight.parts) held.insert(part.tensor);
  }
  std::vector<std::string> names;
  for (const WeightSpec& weight : spec.weights) {
    const bool is_stored = weight.kept == Kept::in_run && weight.constant.empty();
    if (!is_stored || !is_passed_over(spec, weight)) continue;
    for (const model::Part& part : weight.parts) {
      if (!held.contains(part.tensor)) names.push_back(part.tensor);
    }
  }
  return names;
}

}  // namespace plimsoll::shard
