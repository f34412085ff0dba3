#include "kernels/backend/device_team.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/backend/device_ranks.h"
#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/operands.h"

namespace plimsoll::kernels {
namespace {

/// Lets the current device read the other's memory.
void open_to(int other) {
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) return ignore(cudaGetLastError());
  check(status, "cudaDeviceEnablePeerAccess");
}

void open_to_each_other(const std::vector<CudaBackend*>& ranks) {
  for (const CudaBackend* own : ranks) {
    own->use_here();
    for (const CudaBackend* other : ranks) {
      if (own->device().index != other->device().index) {
        open_to(other->device().index);
      }
    }
  }
}

/// A quarter of a device's multiprocessors for all ranks that it has.
int blocks_of_calls(const std::vector<CudaBackend*>& ranks) {
  const backend::DeviceInfo& device = ranks.front()->device();
  const auto is_there = [&](const CudaBackend* rank) {
    return rank->device().index == device.index;
  };
  const auto sharing = static_cast<int>(std::ranges::count_if(ranks, is_there));
  return std::clamp(device.processors / (4 * sharing), 1, backend::cuda::kMostRankBlocks);
}

}  // namespace

class DeviceTeam::End final : public DeviceRanks {
 public:
  End(const DeviceTeam& team, int64_t rank) : team_(team), rank_(rank) {}

  [[nodiscard]] int64_t rank() const override { return rank_; }
  [[nodiscard]] int64_t ranks() const override { return std::ssize(team_.ranks_); }

  void all_reduce_sum(backend::View values) override {
    sum_ranks(values, team_.areas(rank_), stream());
  }

  // Peer access that the driver grants may not work: behind an IOMMU, for one.
  void self_test() override {
    if (!trial_succeeds(*this, *team_.ranks_[static_cast<size_t>(rank_)])) fail_unheard();
  }

  bool sum_add_norm(const backend::ops::AddNorm& op) override {
    return kernels::sum_add_norm({.out = op.out,
                                  .in = op.residual,
                                  .delta = op.delta,
                                  .spec = op.spec,
                                  .weight = vector_of(op.weight),
                                  .bias = vector_of(op.bias)},
                                 team_.areas(rank_), stream());
  }

  void sum_slices(const backend::View& out, const SliceSums& sums) override {
    kernels::sum_slices(out, sums, team_.areas(rank_), stream());
  }

  void all_reduce_max(backend::View values) override {
    most_ranks(values, team_.areas(rank_), stream());
  }

  void all_gather_rows(backend::View rows, std::span<const int32_t> owners) override {
    const int32_t owner = one_owner(owners);
    if (rows.rows > 0) collect({.from = rows, .to = rows, .first = owner});
  }

  void gather_columns(backend::View columns, backend::View all) override {
    collect({.from = columns, .to = rank_ == 0 ? all : backend::View{}});
  }

  void share_columns(backend::View columns, backend::View all) override {
    const int64_t alike = columns.columns * ranks() / all.columns;
    collect({.from = columns, .to = all, .alike = static_cast<int>(alike)});
  }

 private:
  [[noreturn]] void fail_unheard() const {
    fail(ExitCode::usage,
         "-tp: GPU {} does not see what the others write into its memory, though the driver says "
         "that it can (an IOMMU, or PCIe's access control, may be in the way); -pp or -dp do "
         "without",
         team_.ranks_[static_cast<size_t>(rank_)]->device().index);
  }
  void collect(const RankColumns& op) { collect_columns(op, team_.areas(rank_), stream()); }
  [[nodiscard]] cudaStream_t stream() const {
    return team_.ranks_[static_cast<size_t>(rank_)]->stream();
  }

  const DeviceTeam& team_;
  int64_t rank_;
};

std::string hidden_memory(const std::vector<CudaBackend*>& ranks) {
  for (const CudaBackend* own : ranks) {
    for (const CudaBackend* other : ranks) {
      const int index = own->device().index, theirs = other->device().index;
      if (index == theirs || can_read(index, theirs)) continue;
      return fmt::format(
          "GPU {} cannot read the memory of GPU {} (no NVLink, and PCIe between them is not "
          "peer to peer)",
          index, theirs);
    }
  }
  return "";
}

DeviceTeam::DeviceTeam(std::vector<CudaBackend*> ranks)
    : ranks_(std::move(ranks)), blocks_(blocks_of_calls(ranks_)), aborted_(sizeof(int)) {
  *static_cast<int*>(aborted_.data()) = 0;
  open_to_each_other(ranks_);
  for (int64_t rank = 0; rank < std::ssize(ranks_); ++rank) {
    ends_.push_back(std::make_unique<End>(*this, rank));
  }
}

DeviceTeam::~DeviceTeam() = default;

backend::TensorRanks& DeviceTeam::rank(int64_t index) {
  return *ends_[static_cast<size_t>(index)];
}

void DeviceTeam::abort() noexcept {
  std::atomic_ref(*static_cast<int*>(aborted_.data())) = 1;
}

void DeviceTeam::resume() noexcept {
  std::atomic_ref(*static_cast<int*>(aborted_.data())) = 0;
}

RankAreas DeviceTeam::areas(int64_t rank) const {
  RankAreas areas{.rank = static_cast<int>(rank),
                  .ranks = static_cast<int>(ranks_.size()),
                  .blocks = blocks_,
                  .aborted = static_cast<const int*>(aborted_.data())};
  for (size_t i = 0; i < ranks_.size(); ++i) {
    areas.area[i] = reinterpret_cast<unsigned char*>(ranks_[i]->rank_area().data());
  }
  return areas;
}

}  // namespace plimsoll::kernels
