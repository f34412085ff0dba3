// How the weights of a GGUF file are kept in memory.
#include <algorithm>
#include <vector>

#include "checkpoint/gguf/bind.h"
#include "checkpoint/packed_weights.h"
#include "model/slices.h"

namespace plimsoll::checkpoint::gguf {

using model::ModelSpec;
using model::Part;
using model::WeightId;
using model::WeightSpec;

namespace {

/// How llama.cpp's products round the inputs of a packed type (its vec_dot_type: Q8_K with blocks
/// of 256, else Q8_0 or Q8_1).
model::InputRounding rounding_for(const GgmlTypeInfo& type) {
  return type.values == 256 ? model::InputRounding::int8_group256
                            : model::InputRounding::int8_group32;
}

}  // namespace

DType stored_dtype(const Checkpoint& checkpoint) {
  std::vector<DType> halves;
  bool floats = false;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor.shape.size() < 2 || tensor.shape.front() < 2) continue;
    if (tensor.is_packed()) return DType::bf16;
    if (tensor.dtype == DType::f32) {
      floats = true;
    } else {
      halves.push_back(tensor.dtype);
    }
  }
  if (!halves.empty()) return common_dtype(halves);
  return floats ? DType::f32 : DType::bf16;
}

void keep_blocks(const Checkpoint& checkpoint, quantization::Activations activations,
                 ModelSpec& spec) {
  const quantization::FindStored find = find_stored(checkpoint, spec);
  for (size_t i = 0; i < spec.weights.size(); ++i) {
    WeightSpec& weight = spec.weights[i];
    const auto stored = [&](const Part& part) { return checkpoint.find(part.tensor); };
    if (weight.is_vector()) {
      const TensorEntry* const first =
          weight.parts.empty() ? nullptr : stored(weight.parts.front());
      if (first != nullptr && first->dtype == DType::f32) weight.dtype = DType::f32;
      continue;
    }
    if (spec.is_router(static_cast<WeightId>(i))) continue;  // run in float32 by itself
    const bool turned = std::ranges::any_of(weight.parts, &Part::transposed);
    for (Part& part : weight.parts) {
      const TensorEntry* const tensor = stored(part);
      if (tensor == nullptr || turned || part.mapping != model::Mapping::none) continue;
      if (!tensor->is_packed() && tensor->dtype == spec.dtype) continue;
      part.packing = quantization::packing_of({.format = quantization::WeightFormat::ggml},
                                              quantization::stored_matrix(weight, part, find));
      if (activations == quantization::Activations::rounded_blocks && part.packing->has_blocks())
        part.packing->inputs = rounding_for(part.packing->block_type());
    }
  }
  model::slice_sums(spec);
}

}  // namespace plimsoll::checkpoint::gguf
