// Tensor-parallel ranks that are threads of one process: they read and write each other's matrices
// where they lie, between two meetings.
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

  [[nodiscard]] TensorRanks& rank(int64_t index) override {
    return *ends_[static_cast<size_t>(index)];
  }
  /// Those that wait throw RankLost.
  void give_up() noexcept override;

 private:
  class End;
  /// Returns when all ranks have called it; what they wrote before is seen by all.
  void meet();
  /// Shows all a rank's matrix until the meeting after the next.
  void show(int64_t rank, const backend::View& matrix);
  [[nodiscard]] std::byte* row(int64_t rank, int64_t row) const;

  std::vector<backend::View> shown_;  // by rank
  std::atomic<uint32_t> meetings_ = 0;
  std::atomic<int64_t> here_ = 0;
  std::atomic<bool> given_up_ = false;
  std::vector<std::unique_ptr<TensorRanks>> ends_;
};

}  // namespace plimsoll::engine
