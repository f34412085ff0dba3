// Tensors of quantized weights whose elements follow from the config or from other tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::shard {

/// Checks that the tensors whose elements the config implies (Part::values, index_group) hold just
/// these. Throws Error(checkpoint_unusable) naming the tensor.
void check_implied_values(const checkpoint::WeightReader& reader, const model::ModelSpec& spec);

/// Fills in elements [first, first + count) of a part whose elements the config implies, in
/// `dtype`.
void fill_implied_values(const model::Part& part, DType dtype, int64_t first, int64_t count,
                         std::byte* to);

/// Checks that the experts' gate and up matrices have one input scale, of which vLLM keeps one;
/// vLLM demands it for compressed-tensors. Throws Error(checkpoint_unusable).
void check_input_scales(const checkpoint::WeightReader& reader, const model::ModelSpec& spec);

}  // namespace plimsoll::shard
