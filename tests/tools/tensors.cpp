// Prints the tensors that `run` looks for in a checkpoint of a config, a line each with the name
// and the shape as a JSON list: tensors CONFIG.json
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/config.h"

namespace plimsoll {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

/// Matrices that lie in one tensor under the name of that tensor.
void join_stacks(const model::ModelSpec& spec, Shapes& shapes) {
  for (const model::StackedTensor& stack : spec.stacked_tensors) {
    if (!stack.name.empty()) continue;  // another form of tensors that may lie apart too
    for (int64_t i = 0; i < stack.stored_shape.front(); ++i) {
      if (shapes.erase(stack.tensor + "[" + std::to_string(i) + "]") > 0) {
        shapes[stack.tensor] = stack.stored_shape;
      }
    }
  }
}

Shapes stored_shapes(const model::ModelSpec& spec) {
  Shapes shapes;
  for (const auto* table : {&spec.towers, &spec.weights}) {
    for (const model::WeightSpec& weight : *table) {
      if (weight.zeros_if_absent) continue;
      for (const model::Part& part : weight.parts) shapes[part.tensor] = part.stored_shape;
    }
  }
  join_stacks(spec, shapes);
  return shapes;
}

}  // namespace
}  // namespace plimsoll

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: tensors CONFIG.json\n", stderr);
    return 2;
  }
  try {
    const auto spec = plimsoll::model::make_model_spec(plimsoll::model::read_config(arguments[1]));
    for (const auto& [name, shape] : plimsoll::stored_shapes(spec)) {
      std::puts(plimsoll::Json{name, shape}.dump().c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
