// Sums that tensor-parallel ranks share: a product over inputs of which each rank has some is made
// of slices that are the same whatever ranks there are, so that its bits are.
#pragma once

#include "model/model_spec.h"

namespace plimsoll::model {

/// Slices of a sum, and so ranks that share it, at most. A power of two.
inline constexpr int64_t kMostSlices = 8;

/// Of a sum over so many inputs: slices of whole units, 1, 2, 4 or kMostSlices.
int64_t slices_of(int64_t inputs, int64_t unit = 2);

/// Inputs that no slice of a weight's sums cuts: pairs, of quantised parts words of codes and e2m1
/// inputs that are rounded together. Groups that have a scale in common may be cut.
int64_t slice_unit(const WeightSpec& weight);

/// What of a model ranks do not share; null: they share all its layers.
const char* find_unshared(const ModelSpec& spec);

/// Sets WeightSpec::slices where ranks share a model's layers. To be called again when weights have
/// become quantised.
void slice_sums(ModelSpec& spec);

}  // namespace plimsoll::model
