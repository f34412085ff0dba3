// A recipe of a checkpoint for any config: tensors under the names and shapes that `run` looks for.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "model/model_spec.h"

namespace plimsoll::testing {

using Shapes = std::map<std::string, std::vector<int64_t>>;

/// The checkpoint's tensors; matrices that lie in one tensor under the name of that tensor.
inline Shapes stored_shapes(const model::ModelSpec& spec) {
  Shapes shapes;
  for (const auto* table : {&spec.towers, &spec.weights}) {
    for (const model::WeightSpec& weight : *table) {
      if (weight.zeros_if_absent) continue;
      for (const model::Part& part : weight.parts) shapes[part.tensor] = part.stored_shape;
    }
  }
  for (const model::StackedTensor& stack : spec.stacked_tensors) {
    if (!stack.name.empty()) continue;  // another form of tensors that may lie apart too
    for (int64_t i = 0; i < stack.stored_shape.front(); ++i) {
      if (shapes.erase(stack.tensor + "[" + std::to_string(i) + "]") > 0) {
        shapes[stack.tensor] = stack.stored_shape;
      }
    }
  }
  return shapes;
}

/// Values so large that a wrong rule shows, and so small that nothing saturates.
inline Json drawn_tensor(const std::string& name, const std::vector<int64_t>& shape, DType dtype) {
  const double deviation = std::sqrt(3.0);  // of numbers from -1 to 1
  const bool embeds = name.find("emb") != std::string::npos || name.find("wte") != name.npos;
  double mean = 0, amplitude = 0.15;
  if (shape.size() < 2) {
    mean = name.ends_with("weight") ? 1 : 0;
  } else {
    amplitude = embeds ? 1 : 1.6 / std::sqrt(static_cast<double>(shape.back()));
  }
  return {{"name", name},
          {"shape", shape},
          {"dtype", safetensors_name(dtype)},
          {"mean", mean},
          {"amplitude", amplitude * deviation}};
}

inline Json drawn_recipe(const model::ModelSpec& spec, DType dtype) {
  Json tensors = Json::array();
  for (const auto& [name, shape] : stored_shapes(spec)) {
    tensors.push_back(drawn_tensor(name, shape, dtype));
  }
  return {{"seed", 1}, {"tensors", std::move(tensors)}};
}

}  // namespace plimsoll::testing
