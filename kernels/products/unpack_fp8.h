// Unpacks float8 weights from the order of tensor cores' lanes (backend/cuda/packed_layout.h) to
// rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/products/packed/packed.h"

namespace plimsoll::kernels {

/// Outputs [first, first + count) of a part that is not `spread`; `first` is a multiple of 16.
struct UnpackFp8 {
  PackedPart part;
  int64_t first = 0, count = 0;
  unsigned char* codes = nullptr;  // [count, columns]
  float* scales = nullptr;         // [groups, count]; null: not wanted
};
void unpack_fp8(const UnpackFp8& op, cudaStream_t stream);

}  // namespace plimsoll::kernels
