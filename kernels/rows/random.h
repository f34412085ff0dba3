// Weights for benchmarks (--load-format dummy).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/dtype.h"

namespace plimsoll::kernels {

/// Element i of `to` becomes number i of the seed's sequence, uniform in [-scale, scale). bf16, f16
/// or f32.
void fill_random(void* to, DType dtype, int64_t count, uint64_t seed, float scale,
                 cudaStream_t stream);

}  // namespace plimsoll::kernels
