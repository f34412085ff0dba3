// Whether a head that config.json ties to the token table is that table in the checkpoint too.
#pragma once

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::checkpoint {

/// By value, as torch.equal: zeros of either sign are equal, NaN is not. For matrices of
/// convertible dtypes.
bool have_equal_values(const TensorEntry& a, const TensorEntry& b);

/// Lets the checkpoint decide, as transformers and vLLM do: a head of its own with other values
/// than the token table's is used instead of tying. Where it is a copy, the spec stays tied and
/// notes that the copy is there.
void settle_tied_head(const Checkpoint& checkpoint, model::ModelSpec& spec);

}  // namespace plimsoll::checkpoint
