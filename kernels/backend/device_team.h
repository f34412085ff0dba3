// Tensor-parallel ranks on devices of one process that read each other's memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/tensor_ranks.h"
#include "kernels/backend/cuda_backend.h"
#include "kernels/ranks/ranks.h"

namespace plimsoll::kernels {

/// Which devices cannot read which other's memory, in words; empty: all can.
std::string hidden_memory(const std::vector<CudaBackend*>& ranks);

/// A team whose communication is enqueued in each rank's backend's stream, and may be recorded.
class DeviceTeam final : public backend::RankTeam {
 public:
  /// Makes the team of devices that can read each other's memory.
  explicit DeviceTeam(std::vector<CudaBackend*> ranks);
  ~DeviceTeam() override;

  [[nodiscard]] backend::TensorRanks& rank(int64_t index) override;
  /// Aborts: the devices stop waiting, and results are invalid from then on.
  void abort() noexcept override;
  void resume() noexcept override;

 private:
  class End;
  [[nodiscard]] RankAreas areas(int64_t rank) const;

  std::vector<CudaBackend*> ranks_;
  int blocks_;
  PinnedMemory aborted_;  // an int
  std::vector<std::unique_ptr<End>> ends_;
};

}  // namespace plimsoll::kernels
