// Tensor-parallel ranks that are threads of one process: they read and write each other's matrices
// in place, between two barriers.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/ranks/communicator.h"

namespace plimsoll::engine {

class SharedTeam final : public RankTeam {
 public:
  explicit SharedTeam(int64_t ranks);
  ~SharedTeam() override;

  [[nodiscard]] TensorRanks& rank(int64_t index) override { return *ends_[index]; }
  /// Wakes ranks that wait; they throw RankLost.
  void abort() noexcept override;

 private:
  class End;
  /// Barrier: returns when all ranks have called it; all see what the others wrote before.
  void barrier();
  /// Shows a rank's matrix to all ranks, until the barrier after the next.
  void show(int64_t rank, const backend::View& matrix);
  [[nodiscard]] std::byte* row(int64_t rank, int64_t row) const;

  std::vector<backend::View> shown_;  // by rank
  std::atomic<uint32_t> barriers_ = 0;
  std::atomic<int64_t> here_ = 0;
  std::atomic<bool> aborted_ = false;
  std::vector<std::unique_ptr<TensorRanks>> ends_;
};

}  // namespace plimsoll::engine
