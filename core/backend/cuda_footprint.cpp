#include "backend/cuda_footprint.h"

#include <algorithm>

namespace plimsoll::backend {
namespace {

constexpr size_t aligned(size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

}  // namespace

size_t CudaFootprint::weight_bytes(const model::WeightSpec& spec, DType dtype) const {
  return aligned(static_cast<size_t>(spec.elements()) * dtype_size(dtype));
}

size_t CudaFootprint::kv_bytes(const model::AttentionSpec& spec, int64_t block_size,
                               DType dtype) const {
  return aligned(static_cast<size_t>(2 * spec.kv_heads * block_size * spec.head_dim) *
                 dtype_size(dtype));
}

size_t CudaFootprint::linear_workspace(int64_t, const model::WeightSpec&, DType) const {
  return 0;  // device_workspace_bytes serves all products
}

}  // namespace plimsoll::backend
