// Weights in the form that kernels read.
#pragma once

#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// A plain matrix weight as rows, of all matrices of a stack: it lies on the device row-major,
/// without gaps.
inline View rows_of(const backend::Weight& weight) {
  const model::WeightSpec& spec = *weight.spec;
  return {weight.data, weight.dtype, spec.matrices() * spec.rows(), spec.columns(), spec.columns()};
}

inline Vector vector_of(const backend::Weight& weight) {
  return weight ? Vector{weight.data, weight.dtype} : Vector{};
}

}  // namespace plimsoll::kernels
