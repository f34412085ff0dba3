#include "processes/messages.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace plimsoll::processes {
namespace {

/// MPI counts by int.
constexpr size_t kPiece = size_t{1} << 30;

/// Between two looks at a message: at first none, since most come within microseconds; a rank that
/// waits for long leaves its core to others.
void pause(int looks) {
  constexpr int kAtOnce = 200;
  constexpr int kMostMicroseconds = 500;
  if (looks < kAtOnce) {
    sched_yield();
    return;
  }
  const int microseconds = std::min(kMostMicroseconds, 20 + (looks - kAtOnce) / 4);
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

}  // namespace

class Messages::End final : public engine::Communicator {
 public:
  End(Messages& messages, int64_t replica, int64_t rank, int64_t each)
      : messages_(messages), replica_(replica), rank_(rank), each_(each) {}

  void send(int64_t to, std::span<const std::byte> bytes) override {
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
      messages_.wait(messages_.link_.send(address(rank_, to, to), piece));
    }
  }

  void receive(int64_t from, std::span<std::byte> bytes) override {
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
      take(messages_.link_.receive(address(from, rank_, from), piece), piece.size());
    }
  }

  // Pieces of a matrix are far below kPiece.
  void exchange(int64_t /*rank*/, int64_t other, std::span<const std::byte> sent,
                std::span<std::byte> received) override {
    if (std::max(sent.size(), received.size()) > kPiece) {
      return Communicator::exchange(rank_, other, sent, received);
    }
    if (sent.empty()) return receive(other, received);
    if (received.empty()) return send(other, sent);
    Link& link = messages_.link_;
    PlimsollMpiRequest in = link.receive(address(other, rank_, other), received);
    messages_.wait(link.send(address(rank_, other, other), sent));
    take(in, received.size());
  }

 private:
  // The tag separates the messages of ranks of one process.
  [[nodiscard]] Link::Address address(int64_t from, int64_t to, int64_t other) const {
    const int64_t tag = (replica_ * each_ + from % each_) * each_ + to % each_;
    return {.process = static_cast<int>(other / each_), .tag = static_cast<int>(tag)};
  }

  void take(PlimsollMpiRequest request, size_t bytes) {
    if (messages_.wait(request) != bytes) {
      throw std::logic_error("a rank receives another number of bytes than was sent");
    }
  }

  Messages& messages_;
  int64_t replica_, rank_, each_;
};

engine::Communicator& Messages::rank(int64_t replica, int64_t rank, int64_t each) {
  const std::lock_guard lock(mutex_);
  auto& end = ends_[{replica, rank}];
  if (!end) end = std::make_unique<End>(*this, replica, rank, each);
  return *end;
}

size_t Messages::wait(PlimsollMpiRequest request) {
  for (int looks = 0;; ++looks) {
    if (const auto bytes = link_.test(request)) return *bytes;
    if (aborted_) {
      link_.cancel(request);
      throw engine::RankLost();
    }
    pause(looks);
  }
}

}  // namespace plimsoll::processes
