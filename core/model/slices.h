// Slices of sums that tensor-parallel ranks share. A product over inputs of which each rank has
// some is made of slices that are equal for any number of ranks, so that its bits are equal too.
#pragma once

#include "model/model_spec.h"

namespace plimsoll::model {

/// Slices of a sum at most, and so ranks that share it. A power of two.
inline constexpr int64_t kMostSlices = 8;

/// Number of slices of a sum over `inputs` inputs: slices of whole units, 1, 2, 4 or kMostSlices.
int64_t slices_of(int64_t inputs, int64_t unit = 2);

/// Inputs that slices of a weight's sums must not cut: pairs, for quantized parts words of codes
/// and e2m1 inputs that are rounded together. Groups with a common scale may be cut.
int64_t slice_unit(const WeightSpec& weight);

/// Why tensor-parallel ranks cannot share the layers of a model; null: they can.
const char* find_unshared(const ModelSpec& spec);

/// Sets WeightSpec::slices where ranks share a model's layers. To be called again after weights
/// have been quantized.
void slice_sums(ModelSpec& spec);

}  // namespace plimsoll::model
