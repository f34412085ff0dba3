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
  [[nodiscard]] backend::MeetingId make_meeting() const override;
  [[nodiscard]] std::unique_ptr<backend::FarTeam> meet(
      std::span<backend::Backend* const> ranks, const backend::Meeting& meeting) const override;
  void settle() override { stream_.wait(); }
  void take_from(std::span<const std::byte> from, void* to) override;
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
  void run_step(int64_t key, const std::function<void()>& ops) override;
  void finish_step(const backend::BatchMeta& batch) override;
  void await_step(const backend::BatchMeta& batch) override;

  void plan_segments(const backend::BatchMeta& batch, const model::AttentionSpec& spec) override;
  void send(void* to, std::span<const std::byte> from) override;
  void await_sent() override { sent_.wait(); }

 protected:
  void do_load_weight(const backend::Weight& weight, const backend::RowReader& read) override;
  void do_embed(backend::View out, const backend::Weight& table, const backend::BatchMeta& batch,
                float scale) override;
  void do_embed_positions(backend::View out, const backend::Weight& table,
                          const backend::BatchMeta& batch, int64_t offset) override;
  void do_gather_rows(backend::View out, backend::View in,
                      const backend::BatchMeta& batch) override;
  void do_norm(backend::View out, backend::View in, const model::Norm& spec,
               const backend::Weight& weight, const backend::Weight& bias) override;
  void do_add(backend::View residual, backend::View delta) override;
  void do_add_norm(backend::View out, backend::View residual, backend::View delta,
                   const model::Norm& spec, const backend::Weight& weight,
                   const backend::Weight& bias) override;
  void do_linear(backend::View out, backend::View in, const backend::Weight& weight,
                 const backend::Weight& bias, model::Activation activation,
                 std::byte* workspace) override;
  void do_linear_across(backend::View out, backend::View in, const backend::Weight& weight,
                        const backend::Weight& bias, std::byte* workspace) override;
  void do_fused_linear(const backend::FusedLinear& op, const backend::FusedParts& parts) override;
  void do_rope_angles(backend::View out, const model::RopeSpec& rope,
                      const backend::BatchMeta& batch) override;
  void do_rope_and_store(backend::View qkv, backend::View angles, const model::AttentionSpec& spec,
                         const backend::HeadNorms& norms, const backend::KvLayer& cache,
                         const backend::BatchMeta& batch) override;
  void do_choose_keys(backend::View chosen, const backend::IndexInputs& in,
                      const model::AttentionSpec& spec, const backend::KvLayer& keys,
                      const backend::BatchMeta& batch, std::byte* workspace) override;
  void do_attention(backend::View out, backend::View qkv, const model::AttentionSpec& spec,
                    const backend::ScoreTerms& terms, const backend::KvLayer& cache,
                    const backend::BatchMeta& batch, std::byte* workspace) override;
  void do_place_embeddings(backend::View out, const backend::BatchMeta& batch) override;
  void do_average_parts(backend::View out, backend::View in) override;
  void do_scale_columns(backend::View x, const backend::Weight& weight) override;
  void do_copy_heads(backend::View out, backend::View in,
                     const backend::HeadColumns& columns) override;
  void do_multiply_gates(backend::View x, backend::View gates, model::GateKind kind) override;
  void do_xielu(backend::View x, const backend::Weight& parameters) override;
  void do_limit_gates(backend::View x, const model::GateLimits& limits) override;
  void do_gated_activation(backend::View out, backend::View in,
                           model::Activation activation) override;
  void do_route(const backend::Routing& routing, backend::View logits,
                const model::RouterSpec& router, const backend::Weight& choice_bias) override;
  void do_experts(backend::View out, backend::View in, const backend::Routing& routing,
                  const model::MlpSpec& mlp, const backend::ExpertWeights& weights,
                  std::byte* workspace) override;
  void do_soft_cap(backend::View x, float cap) override;
  void do_multiply_factors(backend::View x, const backend::Weight& factors,
                           backend::View indices) override;
  void do_scale(backend::View x, float factor) override;
  void do_match_size(backend::View x, backend::View like) override;
  void do_keep_above(backend::View x, float deviations) override;
  void do_convolve(backend::View out, backend::View in, const model::ConvSpec& spec,
                   const backend::Weight& weight, const backend::Weight& bias,
                   const backend::StateLayer& states, const backend::BatchMeta& batch) override;
  void do_selective_scan(backend::View out, const backend::ScanInputs& in,
                         const model::RecurrentSpec& spec, const backend::ScanWeights& weights,
                         const backend::StateLayer& states,
                         const backend::BatchMeta& batch) override;
  void do_gated_delta(backend::View out, const backend::DeltaInputs& in,
                      const model::RecurrentSpec& spec, const backend::DeltaWeights& weights,
                      const backend::StateLayer& states, const backend::BatchMeta& batch) override;
  void do_linear_recurrence(backend::View out, const backend::LruInputs& in,
                            const model::RecurrentSpec& spec, const backend::Weight& decay,
                            const backend::StateLayer& states,
                            const backend::BatchMeta& batch) override;
  void do_draw(const backend::BatchMeta& batch, backend::View logits, int64_t first,
               std::byte* workspace) override;
  const float* do_host_logits(backend::View logits, std::span<float> staging) override;

 private:
  void linear_plain(backend::View out, backend::View in, const backend::Weight& weight,
                    const backend::Weight& bias, model::Activation activation);
  /// linear() with --deterministic. `workspace`: backend::cuda::PinnedLayout; without one operands
  /// are not copied.
  void linear_pinned(backend::View out, backend::View in, const backend::Weight& weight,
                     const backend::Weight& bias, model::Activation activation,
                     std::byte* workspace);
  /// linear() by slices, whose inputs ranks may share, summed over all of them.
  void linear_sums(backend::View out, backend::View in, const backend::Weight& weight,
                   const backend::Weight& bias, model::Activation activation, std::byte* workspace);
  void linear_sliced(backend::View out, backend::View in, const backend::Weight& weight,
                     const backend::Weight& bias, std::byte* workspace);
  /// linear() by slices with a quantised weight. `workspace`: backend::cuda::PackedSlicesLayout.
  void linear_packed_sliced(backend::View out, backend::View in, const backend::Weight& weight,
                            const backend::Weight& bias, std::byte* workspace);
  /// Computes the sums that `slices` describes, at `to`.
  void multiply_slices(const SliceSums& slices, float* to, backend::View in,
                       const backend::Weight& weight);
  /// out = the sum of slices, of all ranks if there are others.
  void join_slices(backend::View out, const SliceSums& slices, backend::InputRanks* ranks);
  void join_experts(backend::View out, const SliceSums& sums, backend::InputRanks* ranks);
  [[nodiscard]] bool is_deterministic() const { return footprint_of_device.card().deterministic; }
  void linear_packed(backend::View out, backend::View in, const backend::Weight& weight,
                     const backend::Weight& bias, model::Activation activation,
                     std::byte* workspace);
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
  /// Codes and rows for which kernels of quantised weights were loaded.
  std::set<std::tuple<model::Code, int64_t, DType>> packed_types_;
  std::unique_ptr<Loader> loader_;
  std::vector<std::unique_ptr<Event>> finished_;  // by slot
  Event sent_;                                    // the inputs of image encoders are sent
};

}  // namespace plimsoll::kernels
