// Stores a float sum to a matrix of any activation type.
#pragma once

#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// Stores a value; its type is tested then: the branch is the same for all threads.
__device__ inline void store_as(const View& out, int64_t row, int64_t column, float value) {
  const int64_t at = row * out.stride + column;
  switch (out.dtype) {
    case DType::bf16:
      static_cast<__nv_bfloat16*>(out.data)[at] = from_float<__nv_bfloat16>(value);
      return;
    case DType::f16:
      static_cast<__half*>(out.data)[at] = from_float<__half>(value);
      return;
    default:
      static_cast<float*>(out.data)[at] = value;
  }
}

}  // namespace plimsoll::kernels
