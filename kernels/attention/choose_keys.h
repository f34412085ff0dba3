// Choice of the keys that rows see where there is an indexer: scores of all keys, then the best of
// them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/footprint.h"
#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// chosen [T, n] i32: see backend::ops::ChooseKeys. head_dim <= 256.
struct ChooseKeys {
  View chosen;
  View q;        // [T, H d]
  View weights;  // [T, H]
  const model::AttentionSpec* spec = nullptr;
  const backend::KvLayer* keys = nullptr;
  float* scores = nullptr;  // [backend::kCudaChoiceRows, longest]
  int64_t longest = 0;      // keys that a row sees at most
};

void choose_keys(const ChooseKeys& op, const DeviceBatch& batch, cudaStream_t stream);

}  // namespace plimsoll::kernels
