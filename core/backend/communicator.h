// What a rank says to one other: bytes that one sends and the other waits for.
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

/// One rank's end of its launch's connections. Calls return when their bytes may be used again and
/// throw RankLost, then and from then on, when a rank has failed. Where the bytes are a device's
/// they are enqueued, as ops are. Not to be called from two threads at once.
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

}  // namespace plimsoll::backend
