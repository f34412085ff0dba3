// A made-up step for measuring kernels of attention before a launch is sealed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/flash_plan.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

/// Equal sequences, whose blocks are the pool's blocks in turn, with any contents.
class AttentionTrial {
 public:
  struct Size {
    int64_t sequences = 0;
    int64_t rows = 1;    // of each, its last ones
    int64_t tokens = 0;  // of each sequence
  };
  /// `planner` plans the step. Takes its arrays from `scratch`, which is device memory.
  AttentionTrial(const Size& size, const backend::KvLayer& cache, const model::AttentionSpec& spec,
                 DType activation, FlashPlanner& planner, std::span<std::byte> scratch,
                 cudaStream_t stream);

  /// True when the scratch had room; else there is nothing to run.
  [[nodiscard]] bool fits() const { return fits_; }
  /// The step, with its table in the place of the cache's group and only the plan in its plan.
  [[nodiscard]] const backend::BatchMeta& batch() const { return batch_; }
  [[nodiscard]] const backend::View& qkv() const { return qkv_; }
  [[nodiscard]] const backend::View& out() const { return out_; }

 private:
  std::span<std::byte> take(size_t bytes);
  void place(const Size& size, const backend::KvLayer& cache, std::span<std::byte> room);

  std::span<std::byte> scratch_;
  std::vector<std::byte> host_;
  std::vector<std::span<const int32_t>> tables_;
  backend::BatchMeta batch_;
  backend::View qkv_{}, out_{};
  bool fits_ = false;
};

}  // namespace plimsoll::kernels
