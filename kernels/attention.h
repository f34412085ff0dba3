// A step's attention: FlashInfer's kernels where they cover a layer, the plain kernel elsewhere.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <span>

#include "backend/cuda_footprint.h"
#include "kernels/flash_attention.h"

namespace plimsoll::kernels {

class StepAttention {
 public:
  /// `workspace` is of the device, as CudaFootprint::device_workspace_bytes has it without the part
  /// of products.
  void start(const backend::StepShape& shape, const backend::CardFigures& card,
             std::span<std::byte> workspace);

  /// Fills batch.plan on the host.
  void plan(const backend::BatchMeta& batch);

  /// Whether the layers run on FlashInfer's kernels, of activations and cache of these types.
  [[nodiscard]] const FlashUnit* unit(const model::AttentionSpec& spec, DType activations,
                                      const backend::KvLayer& cache) const;

  /// Enqueues a layer's attention if unit() has something for it.
  void run(const FlashUnit& unit, const backend::View& out, const backend::View& qkv,
           const model::AttentionSpec& spec, const backend::KvLayer& cache,
           const backend::BatchMeta& batch, cudaStream_t stream);

 private:
  FlashLimits limits_;
  FlashMemory memory_ = FlashMemory::large;
  std::unique_ptr<FlashPlans> plans_;  // none without FlashInfer
  std::span<std::byte> workspace_;
  int64_t table_stride_ = 0;
};

}  // namespace plimsoll::kernels
