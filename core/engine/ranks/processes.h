// The processes over which a launch's ranks are spread, as one of them sees the others.
//
// Process p has ranks [p * ranks / processes, (p + 1) * ranks / processes) of each replica of the
// model. Process 0 has the scheduler; the others serve it (rank_server.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/ranks/communicator.h"

namespace plimsoll::engine {

class Processes {
 public:
  virtual ~Processes() = default;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  [[nodiscard]] virtual int64_t process() const = 0;
  [[nodiscard]] virtual int64_t count() const = 0;
  /// True when another process runs on this one's machine.
  [[nodiscard]] virtual bool same_node(int64_t process) const = 0;
  /// The communicator of a rank that this process has, one of `ranks` of a replica of the model;
  /// lives as long as this object. Ranks of different replicas do not communicate.
  virtual Communicator& rank(int64_t replica, int64_t rank, int64_t ranks) = 0;
  /// Barrier with a check: returns when all processes have called it. Throws Error(usage) where
  /// `facts`, lines of "name: value", differ from those of process 0, and names the first that
  /// differs.
  virtual void agree(const std::string& facts) = 0;
  /// All-reduce: the least value that a process passes.
  virtual uint64_t least(uint64_t value) = 0;
  /// Aborts: wakes all of this process's ranks that wait for others; they throw RankLost.
  virtual void abort() noexcept = 0;
  /// True after abort(), or when another process is lost. Results that a device made before a
  /// call that returns false are valid, though other processes took part in them.
  [[nodiscard]] virtual bool aborted() const noexcept = 0;
  /// Calls `act` once when a process is lost, after aborted() is true, from the thread that
  /// notices it; `act` must not wait for long. Until forget().
  virtual void when_lost(const void* who, std::function<void()> act) = 0;
  virtual void forget(const void* who) noexcept = 0;

 protected:
  Processes() = default;
};

/// Ranks [first, end) of a replica.
struct RankRange {
  int64_t first = 0, end = 0;

  [[nodiscard]] bool has(int64_t rank) const { return first <= rank && rank < end; }
  [[nodiscard]] int64_t size() const { return end - first; }
};

/// Ranks of a replica that `process` has, of `ranks` in all; all where `processes` is null.
inline RankRange ranks_of(const Processes* processes, int64_t process, int64_t ranks) {
  if (processes == nullptr) return {0, ranks};
  const int64_t each = ranks / processes->count();
  return {process * each, (process + 1) * each};
}
inline RankRange local_ranks(const Processes* processes, int64_t ranks) {
  return ranks_of(processes, processes == nullptr ? 0 : processes->process(), ranks);
}

}  // namespace plimsoll::engine
