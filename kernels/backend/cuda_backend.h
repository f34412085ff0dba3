// The CUDA backend: the ops of backend::Backend on one device, in one stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cuda/footprint.h"
#include "backend/device.h"
#include "kernels/attention/attention.h"
#include "kernels/products/few_rows_choice.h"
#include "kernels/products/fp8.h"
#include "kernels/products/linear.h"
#include "kernels/products/packed/packed.h"
#include "kernels/products/slices.h"
#include "kernels/rows/rope_tables.h"
#include "kernels/rows/rows.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/graphs.h"
#include "kernels/runtime/loader.h"

namespace plimsoll::kernels {

/// Compute capability that kernels are built from.
inline constexpr int kLeastCapability = 80;

/// Members that are made before Backend, which refers to the footprint.
struct BackendParts {
  backend::DeviceInfo info;
  backend::CudaFootprint footprint_of_device;
};

class CudaBackend final : private BackendParts, public backend::Backend {
 public:
  explicit CudaBackend(const backend::DeviceOptions& options);
  ~CudaBackend() override;

  [[nodiscard]] const backend::DeviceInfo& device() const { return info; }

  void use_here() const override { set_device(info.index); }
  [[nodiscard]] std::unique_ptr<backend::RankTeam> make_team(
      std::span<backend::Backend* const> ranks) const override;
  [[nodiscard]] backend::CommunicatorId make_communicator_id() const override;
  [[nodiscard]] std::unique_ptr<backend::ProcessTeam> join_processes(
      std::span<backend::Backend* const> ranks,
      const backend::Membership& membership) const override;
  void synchronize() override { stream_.wait(); }
  void copy_from_peer(std::span<const std::byte> from, void* to) override;
  /// Memory through which tensor-parallel ranks communicate (backend/cuda/rank_area.h), from the
  /// launch on.
  [[nodiscard]] std::span<std::byte> rank_area() const { return rank_area_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }

  std::unique_ptr<memory::Memory> take_memory(size_t bytes) override;
  std::unique_ptr<memory::Memory> take_host_memory(size_t bytes) override;
  void start_launch(const backend::LaunchParts& parts) override;
  void parallel(int64_t tasks, const backend::HostJob& job) override;
  void fill_random(const backend::Weight& weight, uint64_t seed, float scale) override;
  void finish_loading() override;
  void finish_launch() override;
  /// Notes on what the launch does more slowly than its device could, and why.
  [[nodiscard]] std::vector<std::string> notes() const;

  void start_step(const backend::BatchMeta& batch) override;
  void send_masks(const backend::BatchMeta& batch) override;
  void run_step(int64_t key, const std::function<void()>& ops) override;
  void finish_step(const backend::BatchMeta& batch) override;
  void await_step(const backend::BatchMeta& batch) override;

  void plan_segments(const backend::BatchMeta& batch, const model::AttentionSpec& spec) override;
  void send(void* to, std::span<const std::byte> from) override;
  void await_sent() override { sent_.wait(); }

  /// Runs an op for which its kernel needs nothing but the operands (kernels/rows/rows.h).
  template <typename Op>
  auto compute(const Op& op) -> decltype(kernels::compute(op, cudaStream_t())) {
    kernels::compute(op, stream());
  }
  void compute(const ops::Embed& op);
  void compute(const ops::EmbedPositions& op);
  void compute(const ops::PlaceEmbeddings& op);
  void compute(const ops::GatherRows& op);
  void compute(const ops::Norm& op);
  void compute(const ops::AddNorm& op);
  void compute(const ops::ScaleColumns& op);
  void compute(const ops::MultiplyFactors& op);
  void compute(const ops::Linear& op, std::byte* workspace);
  void compute(const ops::Xielu& op);
  void compute(const ops::Route& op);
  void compute(const ops::Experts& op, std::byte* workspace);
  void compute(const ops::RopeAngles& op);
  void compute(const ops::RopeAndStore& op);
  void compute(const ops::ChooseKeys& op, std::byte* workspace);
  void compute(const ops::Attention& op);
  void compute(const ops::Convolve& op);
  void compute(const ops::SelectiveScan& op);
  void compute(const ops::GatedDelta& op);
  void compute(const ops::LinearRecurrence& op);
  void compute(const ops::Draw& op);

 protected:
  void dispatch(ops::AnyOp op, std::span<std::byte> workspace) override {
    ops::compute_with(*this, op, workspace);
  }
  void do_load_weight(const backend::Weight& weight, const backend::RowReader& read) override;
  bool fuse(const ops::FusedLinear& op) override;
  const float* do_host_logits(backend::View logits, std::span<float> staging) override;

 private:
  void linear_plain(const ops::Linear& op);
  /// A product with --deterministic. `workspace`: backend::cuda::PinnedLayout; without one operands
  /// are not copied.
  void linear_pinned(const ops::Linear& op, std::byte* workspace);
  /// A product by slices, whose inputs ranks may share, summed over all of them.
  void linear_sums(const ops::Linear& op, std::byte* workspace);
  void linear_sliced(const ops::Linear& op, std::byte* workspace);
  /// A product by slices with a quantized weight. `workspace`: backend::cuda::PackedSlicesLayout.
  void linear_packed_sliced(const ops::Linear& op, std::byte* workspace);
  /// Computes the sums that `slices` describes, at `to`.
  void multiply_slices(const SliceSums& slices, float* to, backend::View in,
                       const backend::Weight& weight);
  /// out = the sum of slices, of all ranks if there are others.
  void join_slices(backend::View out, const SliceSums& slices, backend::InputRanks* ranks);
  void join_experts(backend::View out, const SliceSums& sums, backend::InputRanks* ranks);
  [[nodiscard]] bool is_deterministic() const { return footprint_of_device.card().deterministic; }
  void linear_packed(const ops::Linear& op, std::byte* workspace);
  [[nodiscard]] PackedTiles tiles_of_packed() const;
  [[nodiscard]] bool may_multiply_fp8(const backend::Weight& weight, const model::Part& part,
                                      DType in) const;
  void note_packed(const model::WeightSpec& spec, DType in);
  void note_small_linear(const backend::View& in, const backend::Weight& weight);
  void copy_tables(const backend::BatchMeta& batch);
  void tune();
  [[nodiscard]] StepAttention& attention_of(backend::Segmentation segmentation) {
    return attention_[static_cast<size_t>(segmentation)];
  }
  /// Attention of steps.
  [[nodiscard]] StepAttention& step_attention() {
    return attention_of(backend::Segmentation::none);
  }

  backend::ThreadPool pool_;
  Stream stream_;
  Graphs graphs_;
  AttentionOptions attention_options_;
  std::string nccl_;  // DeviceOptions
  Products products_;
  FewRowsChoice few_rows_{products_, stream_.get()};
  Fp8Products fp8_{products_, stream_.get()};
  bool among_ranks_ = false;
  std::span<std::byte> rank_area_;
  int64_t logits_rows_ = 0;                 // of the largest product with the head
  std::array<StepAttention, 3> attention_;  // by Segmentation
  RopeTables ropes_;
  /// Types for which small_linear's kernels were loaded; also those of many rows that only
  /// small_linear supports.
  std::set<std::pair<DType, DType>> small_types_;
  std::set<std::string> slow_products_;
  std::set<DType> fused_types_;  // for which fused_small_linear's kernels were loaded
  /// Codes and rows for which kernels of quantized weights were loaded.
  std::set<std::tuple<model::Code, int64_t, bool, DType>> packed_types_;
  std::unique_ptr<Loader> loader_;
  std::vector<std::unique_ptr<Event>> finished_;  // by slot
  Event sent_;                                    // the inputs of image encoders are sent
};

}  // namespace plimsoll::kernels
