// Ranks that have the heads and columns of a pipeline stage between them, as the model sees them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/communicator.h"
#include "backend/operands.h"

namespace plimsoll::backend {

/// residual += delta, which is the sum of all ranks'; out = norm(residual).
struct SummedNorm {
  View out, residual, delta;
  model::Norm norm;
  Weight weight{}, bias{};
};

/// One rank's end of those that have the heads and columns of a stage between them. All make the
/// same calls in the same order, with matrices of the same shape; those of sums lie without gaps.
/// On the host each returns when its result is there; on a device it is enqueued, as ops are.
/// Throws as what stands behind it: see engine/ranks/communicator.h.
class TensorRanks : public InputRanks {
 public:
  virtual ~TensorRanks() = default;
  TensorRanks(const TensorRanks&) = delete;
  TensorRanks& operator=(const TensorRanks&) = delete;

  [[nodiscard]] int64_t rank() const override = 0;
  /// A power of two.
  [[nodiscard]] virtual int64_t ranks() const = 0;
  /// Made in a tree of pairs: (0 + 1) + (2 + 3).
  void sum(View values) override = 0;
  /// sum(delta) and Backend::add_norm of it as one, with the bits of the two; delta then holds
  /// nothing of worth. False: nothing was done.
  [[nodiscard]] virtual bool sum_add_norm(const SummedNorm& /*op*/) { return false; }
  /// `all` of rank 0 [rows, n] becomes the columns of all side by side, those beyond n left out.
  virtual void gather_columns(View columns, View all) = 0;
  /// `all` [rows, n] of every rank becomes the columns of all side by side. Where n is smaller than
  /// these, as many neighbours as that takes have the same ones.
  virtual void share_columns(View columns, View all) = 0;
  /// Of all ranks, before the first call that counts: what connects them is made.
  virtual void greet() {}
  /// Throws Error(usage) where ranks cannot hear each other, though they said that they could.
  virtual void prove() {}
  /// Where in such a matrix a rank's own columns begin.
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

  /// The end of a rank of this process, in order; lives as long as the team.
  [[nodiscard]] virtual TensorRanks& rank(int64_t index) = 0;
  /// Wakes all ranks that wait for others, for good. On devices nobody waits any more, and what the
  /// ranks make is worth nothing.
  virtual void give_up() noexcept = 0;
  /// On devices that are all at rest, until take_up(): nobody waits for others, and what the ranks
  /// make is worth nothing. Steps that are recorded meanwhile wait when they are replayed.
  virtual void stand_aside() noexcept { give_up(); }
  virtual void take_up() noexcept {}

 protected:
  RankTeam() = default;
};

/// Where ranks of several processes meet: as one of them makes it, and tells the others.
using MeetingId = std::array<std::byte, 128>;

/// Ranks of devices, of which this process has some.
struct Meeting {
  MeetingId id{};
  int64_t first = 0;  // of those that this process has
  int64_t ranks = 0;  // in all processes
};

/// Such ranks: they make sums and the like together, or hand on what one has.
class FarTeam : public RankTeam {
 public:
  /// Ranks are named by their number in the meeting; bytes are the devices'.
  [[nodiscard]] virtual Communicator& line(int64_t index) = 0;
};

}  // namespace plimsoll::backend
