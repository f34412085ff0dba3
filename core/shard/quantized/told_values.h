// Tensors whose elements the config or each other tell (quantised weights).
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::shard {

/// Whether the tensors whose elements the config tells (Part::values, index_group) hold just these.
/// Throws Error(checkpoint_unusable) naming the tensor.
void check_told_values(const checkpoint::WeightReader& reader, const model::ModelSpec& spec);

/// The elements of such a part, [first, first + count), in `dtype`.
void fill_told_values(const model::Part& part, DType dtype, int64_t first, int64_t count,
                      std::byte* to);

/// Whether the experts' gate and up matrices have one scale of their inputs, of which vLLM keeps
/// one; for compressed-tensors it demands that. Throws Error(checkpoint_unusable).
void check_input_scales(const checkpoint::WeightReader& reader, const model::ModelSpec& spec);

}  // namespace plimsoll::shard
