// Ranks on devices that cannot read each other's memory, in one process or in several: what they
// tell each other goes over NCCL.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/ranks/nccl_library.h"
#include "kernels/runtime/cuda_backend.h"

namespace plimsoll::kernels {

/// NCCL moves bytes and no more: sums are made by join_parts(), so that their bits are those of
/// ranks that read each other's memory, whatever order NCCL would choose. Up to half a megabyte
/// each rank gets the whole of all others'; above it its share of them, adds, and all gather the
/// sums, which moves no more than an all-reduce does.
///
/// All is enqueued in a backend's stream, and may be recorded.
class NcclTeam final : public backend::FarTeam {
 public:
  /// Joins the meeting, with all other ranks at the same time. Throws Error as Nccl::check, and
  /// Error(usage) for more ranks than there may be.
  NcclTeam(const Nccl& nccl, std::vector<CudaBackend*> ranks, const backend::Meeting& meeting);
  ~NcclTeam() override;

  [[nodiscard]] backend::TensorRanks& rank(int64_t index) override;
  [[nodiscard]] backend::Communicator& line(int64_t index) override;
  /// Communicators are aborted: what devices wait for ends, and later calls throw RankLost.
  void give_up() noexcept override;
  /// Calls are left out, but where they are recorded.
  void stand_aside() noexcept override { aside_ = true; }
  void take_up() noexcept override { aside_ = false; }

 private:
  class Wire;
  class End;
  class Line;

  std::atomic<bool> aside_ = false;
  std::vector<std::unique_ptr<Wire>> wires_;  // of this process's ranks, as the next two
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace plimsoll::kernels
