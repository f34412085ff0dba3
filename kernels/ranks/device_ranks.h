// What ranks on devices do alike, however they talk.
#pragma once

#include <span>

#include "backend/tensor_ranks.h"
#include "kernels/products/slices.h"
#include "kernels/runtime/cuda_backend.h"

namespace plimsoll::kernels {

/// A rank's end of a team of devices.
class DeviceRanks : public backend::TensorRanks {
 public:
  /// out = the sum of all ranks' slices, in one tree, rounded once (kernels/ranks/ranks.h). What
  /// `sums` names is written to.
  virtual void sum_slices(const backend::View& out, const SliceSums& sums) = 0;
};

/// The rank that has all rows: ranks on devices share those of one alone. Throws std::logic_error.
int32_t one_owner(std::span<const int32_t> owners);

/// Whether a sum over all ranks arrives, within 20 seconds, and is right; all call it.
bool trial_succeeds(backend::TensorRanks& ranks, CudaBackend& own);

}  // namespace plimsoll::kernels
