// Point-to-point communication between ranks that are threads of one process: the receiver copies
// from the sender's memory.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "engine/ranks/communicator.h"

namespace plimsoll::engine {

class SharedWorld {
 public:
  /// `backends` of the ranks copy their devices' memory; null: the rank has the host's memory.
  explicit SharedWorld(std::vector<backend::Backend*> backends);
  explicit SharedWorld(int64_t ranks) : SharedWorld(std::vector<backend::Backend*>(ranks)) {}
  ~SharedWorld();

  /// A rank's communicator; lives as long as the world.
  [[nodiscard]] Communicator& rank(int64_t index) { return *ends_[index]; }
  /// Wakes all ranks that wait for others; they throw RankLost.
  void abort() noexcept;

 private:
  class End;
  /// Bytes that one rank offers to another.
  struct Offer {
    std::span<const std::byte> bytes;
    bool open = false;
  };
  [[nodiscard]] Offer& offer(int64_t from, int64_t to);
  void wait(std::unique_lock<std::mutex>& lock, const bool& open, bool wanted);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
  std::vector<backend::Backend*> backends_;
  std::vector<Offer> offers_;  // [ranks, ranks] from, to
  std::vector<std::unique_ptr<Communicator>> ends_;
};

}  // namespace plimsoll::engine
