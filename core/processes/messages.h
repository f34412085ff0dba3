// Data between ranks of several processes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/ranks/communicator.h"
#include "processes/link.h"

namespace plimsoll::processes {

class Messages {
 public:
  explicit Messages(Link& link) : link_(link) {}

  /// The communicator of a rank of this process; each process has `each` ranks of a copy. Lives as
  /// long as this object.
  engine::Communicator& rank(int64_t copy, int64_t rank, int64_t each);
  /// Wakes all threads that wait; they throw RankLost.
  void give_up() noexcept { given_up_ = true; }
  [[nodiscard]] bool given_up() const noexcept { return given_up_; }

 private:
  class End;
  /// Waits for a request; returns the bytes that it moved.
  size_t wait(PlimsollMpiRequest request);

  Link& link_;
  std::atomic<bool> given_up_ = false;
  std::mutex mutex_;
  // Ends of communication, by copy and rank.
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<engine::Communicator>> ends_;
};

}  // namespace plimsoll::processes
