// Operations that all teams of ranks on devices share.
#pragma once

#include <span>

#include "backend/tensor_ranks.h"
#include "kernels/backend/cuda_backend.h"
#include "kernels/products/slices.h"

namespace plimsoll::kernels {

/// A rank's end of a team of devices.
class DeviceRanks : public backend::TensorRanks {
 public:
  /// out = the sum of all ranks' slices, in one tree, rounded once (kernels/ranks/ranks.h). The
  /// memory of `sums` is overwritten.
  virtual void sum_slices(const backend::View& out, const SliceSums& sums) = 0;
};

/// The rank that has all rows, because ranks on devices share rows of one rank only. Throws
/// std::logic_error.
int32_t one_owner(std::span<const int32_t> owners);

/// Self-test: true when a sum over all ranks arrives within 20 seconds and is right. All ranks call
/// it.
bool trial_succeeds(backend::TensorRanks& ranks, CudaBackend& own);

}  // namespace plimsoll::kernels
