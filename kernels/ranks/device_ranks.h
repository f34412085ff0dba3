// What ranks on devices do alike, however they talk.
#pragma once

#include <span>

#include "backend/tensor_ranks.h"
#include "kernels/runtime/cuda_backend.h"

namespace plimsoll::kernels {

/// The rank that has all rows: ranks on devices share those of one alone. Throws std::logic_error.
int32_t one_owner(std::span<const int32_t> owners);

/// Whether a sum over all ranks arrives, within 20 seconds, and is right; all call it.
bool trial_succeeds(backend::TensorRanks& ranks, CudaBackend& own);

}  // namespace plimsoll::kernels
