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

  /// The communicator of a rank of this process; each process has `each` ranks of a replica. Lives
  /// as long as this object.
  engine::Communicator& rank(int64_t replica, int64_t rank, int64_t each);
  /// Wakes all threads that wait; they throw RankLost.
  void abort() noexcept { aborted_ = true; }
  [[nodiscard]] bool aborted() const noexcept { return aborted_; }

 private:
  class End;
  /// Waits for a request; returns the bytes that it moved.
  size_t wait(PlimsollMpiRequest request);

  Link& link_;
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;
  // Ends of communication, by replica and rank.
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<engine::Communicator>> ends_;
};

}  // namespace plimsoll::processes
