// Heads that config.json ties to the token table: whether the checkpoint has another head.
#pragma once

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::checkpoint {

/// Compares two matrices of convertible dtypes by value, as torch.equal: zeros of either sign are
/// equal, NaN is not.
bool have_equal_values(const TensorEntry& a, const TensorEntry& b);

/// Resolves a tied head by the checkpoint, as transformers and vLLM do: a head with other values
/// than the token table's is used instead of tying. Where it is a copy, the spec stays tied and
/// notes that the copy exists.
void resolve_tied_head(const Checkpoint& checkpoint, model::ModelSpec& spec);

}  // namespace plimsoll::checkpoint
