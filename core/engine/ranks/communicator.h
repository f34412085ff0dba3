// What a rank says to the others of its launch. Threads of a process talk over shared memory
// (shared_world.h), processes over messages (processes/); both stand behind the same calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "backend/backend.h"

namespace plimsoll::engine {

/// Thrown where a rank waits for one that has failed.
class RankLost : public std::runtime_error {
 public:
  RankLost() : std::runtime_error("another rank of the launch has failed") {}
};

/// One rank's end of its launch's connections. Calls return when their bytes may be used again and
/// throw RankLost, then and from then on, when a rank has failed. Not to be called from two threads
/// at once.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// The rank `to` receives as many bytes.
  virtual void send(int64_t to, std::span<const std::byte> bytes) = 0;
  virtual void receive(int64_t from, std::span<std::byte> bytes) = 0;
  /// Both at once, with a rank that does the same; nothing is sent, or received, where there are no
  /// bytes. `rank` is one's own.
  virtual void exchange(int64_t rank, int64_t other, std::span<const std::byte> sent,
                        std::span<std::byte> received) {
    if (rank < other && !sent.empty()) send(other, sent);
    if (!received.empty()) receive(other, received);
    if (rank > other && !sent.empty()) send(other, sent);
  }

 protected:
  Communicator() = default;
};

/// One rank's end of those that have the heads and columns of a stage between them. All make the
/// same calls in the same order, with matrices of the same shape that lie without gaps, and each
/// returns when its result is there; throws as Communicator.
class TensorRanks : public backend::InputRanks {
 public:
  virtual ~TensorRanks() = default;
  TensorRanks(const TensorRanks&) = delete;
  TensorRanks& operator=(const TensorRanks&) = delete;

  [[nodiscard]] int64_t rank() const override = 0;
  /// A power of two.
  [[nodiscard]] virtual int64_t ranks() const = 0;
  /// Made in a tree of pairs: (0 + 1) + (2 + 3).
  void sum(backend::View values) override = 0;
  /// `all` of rank 0 [rows, n] becomes the columns of all side by side, those beyond n left out.
  virtual void gather_columns(backend::View columns, backend::View all) = 0;
  /// `all` [rows, n] of every rank becomes the columns of all side by side. Where n is smaller than
  /// these, as many neighbours as that takes have the same ones.
  virtual void share_columns(backend::View columns, backend::View all) = 0;
  /// Where in such a matrix a rank's own columns begin.
  [[nodiscard]] int64_t first_column(int64_t own, int64_t all) const {
    return rank() * all / (own * ranks()) * own;
  }

 protected:
  TensorRanks() = default;
};

}  // namespace plimsoll::engine
