// Ranks on devices that cannot read each other's memory, in one process or in several, which
// communicate over NCCL.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend/cuda_backend.h"
#include "kernels/ranks/nccl_library.h"

namespace plimsoll::kernels {

/// A team over NCCL. NCCL only moves bytes: join_parts() makes the sums, so that their bits are
/// those of ranks that read each other's memory, whatever order NCCL would choose. Up to half a
/// megabyte each rank receives all other ranks' matrices; above that it receives its share of them,
/// adds, and all gather the sums, which moves no more than an all-reduce does.
///
/// Everything is enqueued in a backend's stream, and may be recorded.
class NcclTeam final : public backend::ProcessTeam {
 public:
  /// Joins the membership, together with all other ranks. Throws Error as Nccl::check, and
  /// Error(usage) for too many ranks.
  NcclTeam(const Nccl& nccl, std::vector<CudaBackend*> ranks,
           const backend::Membership& membership);
  ~NcclTeam() override;

  [[nodiscard]] backend::TensorRanks& rank(int64_t index) override;
  [[nodiscard]] backend::Communicator& line(int64_t index) override;
  /// Aborts the communicators: devices stop waiting, and later calls throw RankLost.
  void abort() noexcept override;
  /// Suspends calls, except while they are recorded.
  void suspend() noexcept override { aside_ = true; }
  void resume() noexcept override { aside_ = false; }

 private:
  class Wire;
  class End;
  class Line;

  std::atomic<bool> aside_ = false;
  std::vector<std::unique_ptr<Wire>> wires_;  // for this process's ranks, as the next two
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace plimsoll::kernels
