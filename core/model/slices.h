// Sums that tensor-parallel ranks share: a product over inputs of which each rank has some is made
// of slices that are the same whatever ranks there are, so that its bits are.
#pragma once

#include "model/model_spec.h"

namespace plimsoll::model {

/// Slices of a sum, and so ranks that share it, at most. A power of two.
inline constexpr int64_t kMostSlices = 8;

/// Of a sum over so many inputs: slices of whole pairs, 1, 2, 4 or kMostSlices.
int64_t slices_of(int64_t inputs);

/// What of a model ranks do not share ("latent attention"); null: they share all its layers.
const char* find_unshared(const ModelSpec& spec);

/// Sets WeightSpec::slices where ranks share a model's layers.
void slice_sums(ModelSpec& spec);

}  // namespace plimsoll::model
