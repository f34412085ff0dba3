// Tensor-parallel ranks, which share the heads and columns of a pipeline stage, as the model sees
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/communicator.h"
#include "backend/operands.h"
#include "backend/ops/rows.h"

namespace plimsoll::backend {

/// One rank's end of the tensor-parallel ranks of a stage. All make the same calls in the same
/// order, with matrices of equal shape; matrices of sums have no gaps. On the host each call
/// returns when its result is complete; on a device it is enqueued, as ops are. Throws as the
/// communicator behind it: see engine/ranks/communicator.h.
class TensorRanks : public InputRanks {
 public:
  virtual ~TensorRanks() = default;
  TensorRanks(const TensorRanks&) = delete;
  TensorRanks& operator=(const TensorRanks&) = delete;

  [[nodiscard]] int64_t rank() const override = 0;
  /// Number of ranks, a power of two.
  [[nodiscard]] virtual int64_t ranks() const = 0;
  /// All-reduce sum in a tree of pairs: (0 + 1) + (2 + 3).
  void all_reduce_sum(View values) override = 0;
  /// sum(delta) and AddNorm of it as one op, with the bits of the two; delta is invalid
  /// afterwards. False: nothing was done.
  [[nodiscard]] virtual bool sum_add_norm(const ops::AddNorm& /*op*/) { return false; }
  /// Gathers columns on rank 0: its `all` [rows, n] becomes the columns of all ranks side by side,
  /// columns beyond n left out.
  virtual void gather_columns(View columns, View all) = 0;
  /// All-gather of columns: `all` [rows, n] of every rank becomes the columns of all side by side.
  /// Where n is less than all columns together, neighbouring ranks have equal columns, which count
  /// once.
  virtual void share_columns(View columns, View all) = 0;
  /// Connects all ranks, before the first call that counts.
  virtual void connect_peers() {}
  /// Self-test: throws Error(usage) where ranks cannot reach each other, though they reported that
  /// they could.
  virtual void self_test() {}
  /// First of a rank's own columns in a matrix of share_columns().
  [[nodiscard]] int64_t first_column(int64_t own, int64_t all) const {
    return rank() * all / (own * ranks()) * own;
  }

 protected:
  TensorRanks() = default;
};

/// Ranks that are joined, as far as this process has them.
class RankTeam {
 public:
  virtual ~RankTeam() = default;
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  /// A rank of this process, in order; lives as long as the team.
  [[nodiscard]] virtual TensorRanks& rank(int64_t index) = 0;
  /// Aborts: wakes all ranks that wait for others, for good. On devices no rank waits from then on,
  /// and the ranks' results are invalid.
  virtual void abort() noexcept = 0;
  /// Suspends waiting until resume(), on devices that are all idle: no rank waits for others, and
  /// the ranks' results are invalid. Steps recorded meanwhile wait when they are replayed.
  virtual void suspend() noexcept { abort(); }
  virtual void resume() noexcept {}

 protected:
  RankTeam() = default;
};

/// Id of a membership of ranks in several processes: one of them makes it and sends it to the
/// others.
using CommunicatorId = std::array<std::byte, 128>;

/// A membership of ranks on devices, of which this process has some.
struct Membership {
  CommunicatorId id{};
  int64_t first = 0;  // first of the ranks that this process has
  int64_t ranks = 0;  // in all processes
};

/// A team of ranks in several processes: collectives, and point-to-point communication.
class ProcessTeam : public RankTeam {
 public:
  /// Communicator of a rank of this process. Ranks are named by their number in the membership;
  /// bytes are in device memory.
  [[nodiscard]] virtual Communicator& line(int64_t index) = 0;
};

}  // namespace plimsoll::backend
