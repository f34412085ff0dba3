// Point-to-point communication between ranks: bytes that one rank sends and another waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace plimsoll::backend {

/// Thrown where a rank waits for one that has failed.
class RankLost : public std::runtime_error {
 public:
  RankLost() : std::runtime_error("another rank of the launch has failed") {}
};

/// One rank's end of its launch's connections. Calls return when their bytes may be used again, and
/// throw RankLost, then and from then on, when a rank has failed. Device memory is sent and
/// received by enqueued copies, as ops are. Not to be called from two threads at once.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Sends bytes; the rank `to` receives as many.
  virtual void send(int64_t to, std::span<const std::byte> bytes) = 0;
  virtual void receive(int64_t from, std::span<std::byte> bytes) = 0;
  /// Sends and receives at once, with a rank that does the same; an empty span is not sent, or
  /// received. `rank` is one's own.
  virtual void exchange(int64_t rank, int64_t other, std::span<const std::byte> sent,
                        std::span<std::byte> received) {
    if (rank < other && !sent.empty()) send(other, sent);
    if (!received.empty()) receive(other, received);
    if (rank > other && !sent.empty()) send(other, sent);
  }

 protected:
  Communicator() = default;
};

}  // namespace plimsoll::backend
