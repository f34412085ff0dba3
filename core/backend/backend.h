// The backend interface: runs the ops (backend/ops) in which the forward pass is written.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "backend/batch_meta.h"
#include "backend/footprint.h"
#include "backend/operands.h"
#include "backend/ops/ops.h"
#include "backend/tensor_ranks.h"
#include "base/dtype.h"
#include "memory/arena.h"
#include "memory/host_memory.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Shapes and memory that a launch gives its backend, once, before anything is loaded.
struct LaunchParts {
  StepShape shape;
  std::span<std::byte> device_workspace;
  std::span<std::byte> host_workspace;
};

/// Reads rows [first, first + count) of a weight in the weight's run dtype, row-major (see
/// WeightReader::read_rows), and opens its quantized parts. Several threads may call it at once.
class RowReader {
 public:
  using Rows = std::function<void(int64_t first, int64_t count, void* to)>;
  using Packed = std::function<std::unique_ptr<model::PackedRows>(size_t part)>;

  template <std::invocable<int64_t, int64_t, void*> F>
  RowReader(F rows, Packed packed = nullptr)  // NOLINT: any function of rows reads rows
      : rows_(std::move(rows)), packed_(std::move(packed)) {}

  void operator()(int64_t first, int64_t count, void* to) const { rows_(first, count, to); }
  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(size_t part) const {
    return packed_(part);
  }

 private:
  Rows rows_;
  Packed packed_;
};

/// A job on the host's threads: see Backend::parallel.
using HostJob = std::function<void(int64_t task)>;

class Backend {
 public:
  explicit Backend(const Footprint& footprint) : footprint_(footprint) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] const Footprint& footprint() const { return footprint_; }
  /// Scratch that ops take their workspace from; set before the first op.
  void use_scratch(memory::Arena& scratch) { scratch_ = &scratch; }
  [[nodiscard]] memory::Arena& scratch() { return *scratch_; }

  // Backends of several ranks.

  /// Selects this backend for the calling thread. Each rank's thread calls it first.
  virtual void use_here() const {}
  /// Makes the team of the ranks of one stage, for backends of this kind; null: they share the
  /// host's memory.
  virtual std::unique_ptr<RankTeam> make_team(std::span<Backend* const> /*ranks*/) const {
    return nullptr;
  }
  /// Makes and joins a team of ranks in several processes, for backends with memory of their own:
  /// one rank makes the membership's id, then all ranks join it. `ranks` are those of this process;
  /// join_processes() returns when all ranks have joined. Throws Error.
  virtual CommunicatorId make_communicator_id() const;
  virtual std::unique_ptr<ProcessTeam> join_processes(std::span<Backend* const> ranks,
                                                      const Membership& membership) const;
  /// Waits until all enqueued work has run, so that another rank may read its results.
  virtual void synchronize() {}
  /// Copies memory of another rank of this process after its synchronize(); returns when the copy
  /// is complete.
  virtual void copy_from_peer(std::span<const std::byte> from, void* to);

  /// The memory behind a launch's arenas: the device's, and the host's that it copies from. Throws
  /// Error when the system refuses.
  virtual std::unique_ptr<memory::Memory> take_memory(size_t bytes);
  virtual std::unique_ptr<memory::Memory> take_host_memory(size_t bytes);
  virtual void start_launch(const LaunchParts&) {}

  /// Calls job(task) for each task in [0, tasks), in any order, and waits: work of the host between
  /// ops, on the backend's own threads. One task after the other where it has none.
  virtual void parallel(int64_t tasks, const HostJob& job);

  /// Stores a weight in footprint().weight_bytes() bytes at `storage`, with any number of threads.
  Weight load_weight(const model::WeightSpec& spec, DType dtype, void* storage,
                     const RowReader& read);
  /// Fills a weight with numbers that are uniform in [-scale, scale), for benchmarks. The same seed
  /// gives the same numbers.
  virtual void fill_random(const Weight& weight, uint64_t seed, float scale);
  /// Returns when all weights are loaded.
  virtual void finish_loading() {}

  /// Called once, when every kind of step has run (the largest one, and each size that is
  /// recorded): chooses algorithms. From then on nothing is allocated on the device.
  virtual void finish_launch() {}

  // A step: start_step, run_step over the ops, finish_step; await_step before its results are read.
  // Steps run in the order in which they are started.

  /// Fills batch.plan and enqueues the copies of the batch to the device.
  virtual void start_step(const BatchMeta&) {}
  /// Enqueues the copy of Drawing::masks to the device, within the step's ops.
  virtual void send_masks(const BatchMeta&) {}
  /// Calls `ops`, which enqueues the ops of the step. A backend that records may keep the ops that
  /// the first call of a key enqueued, and repeat them at later calls without calling `ops`: steps
  /// of a key differ only in the batch's arrays. Key 0 is never recorded.
  virtual void run_step(int64_t key, const std::function<void()>& ops);
  /// Enqueues the copy of the drawn tokens to batch.drawn.
  virtual void finish_step(const BatchMeta&) {}
  /// Waits for the step; then batch.drawn is valid.
  virtual void await_step(const BatchMeta&) {}

  // Image encoders run between steps, in the order in which everything is enqueued. Their ops'
  // inputs in host memory are sent to scratch first.

  /// Fills batch.plan on the host.
  virtual void plan_segments(const BatchMeta&, const model::AttentionSpec&) {}
  /// Enqueues a copy of host memory to the device. Only where memory is not shared.
  virtual void send(void* to, std::span<const std::byte> from);
  /// Waits until all sent data has arrived, so that the host may write there again.
  virtual void await_sent() {}

  // Views: T rows of tokens. All ops give each row the same bits whatever other rows there are
  // (CPU).

  /// Checks an op (std::logic_error) and takes its workspace from scratch. Runs the op where it has
  /// rows and scratch does not only count.
  template <typename Op>
  void run(const Op& op) {
    if constexpr (requires { op.check(); }) op.check();
    const memory::Scope scope(*scratch_);
    std::span<std::byte> workspace;
    if constexpr (requires { op.workspace(footprint_); }) {
      const size_t bytes = op.workspace(footprint_);
      workspace = {scratch_->take_array<std::byte>(Op::kName, bytes), bytes};
    }
    if (runs(ops::written(op))) dispatch(&op, workspace);
  }
  /// Throws std::logic_error: this backend has no such op.
  [[noreturn]] void refuse(std::string_view op) const;

  // Several ops as one kernel, or one after the other where a backend has no such kernel.

  void run(const ops::FusedLinear& op);
  /// A product with a weight of which ranks have some inputs each (Weight::ranks), summed over all
  /// ranks. The bias is added by the rank that is given one; there is no activation.
  void sum_linear(const ops::Linear& op);
  /// Sums delta over all ranks, then AddNorm of it.
  void sum_add_norm(const ops::AddNorm& op, TensorRanks& ranks);

  /// Waits, makes logits readable by the host and returns them: [R, vocab] f32, rows `stride`
  /// apart. A device copies them to `staging`, which has room for R rows of `stride`.
  const float* host_logits(View logits, std::span<float> staging);

 protected:
  /// Runs an op whose check passed; `workspace` is what it asked for.
  virtual void dispatch(ops::AnyOp op, std::span<std::byte> workspace) = 0;
  /// Runs a product, its norm and what follows as one kernel; false: nothing was done.
  virtual bool fuse(const ops::FusedLinear&) { return false; }
  virtual void do_load_weight(const Weight& weight, const RowReader& read) = 0;
  virtual const float* do_host_logits(View logits, std::span<float> staging) = 0;

 private:
  /// True when an op over these rows computes anything: false when scratch is only counted.
  [[nodiscard]] bool runs(View rows) const { return rows.rows > 0 && !scratch_->is_counting(); }
  const Footprint& footprint_;
  memory::Arena* scratch_ = nullptr;
};

}  // namespace plimsoll::backend
