#include "engine/ranks/shared_world.h"

#include <cstring>

namespace plimsoll::engine {

class SharedWorld::End final : public Communicator {
 public:
  End(SharedWorld& world, int64_t rank) : world_(world), rank_(rank) {}

  void send(int64_t to, std::span<const std::byte> bytes) override {
    std::unique_lock lock(world_.mutex_);
    Offer& offer = world_.offer(rank_, to);
    offer = {bytes, true};
    world_.changed_.notify_all();
    world_.wait(lock, offer.open, false);
  }

  // The sender waits until its bytes are copied, so the lock is not needed for that.
  void receive(int64_t from, std::span<std::byte> bytes) override {
    std::unique_lock lock(world_.mutex_);
    Offer& offer = world_.offer(from, rank_);
    world_.wait(lock, offer.open, true);
    if (offer.bytes.size() != bytes.size()) {
      throw std::logic_error("a rank receives another number of bytes than was sent");
    }
    lock.unlock();
    if (backend::Backend* own = world_.backends_[rank_]) {
      own->copy_from_peer(offer.bytes, bytes.data());
    } else if (!bytes.empty()) {
      std::memcpy(bytes.data(), offer.bytes.data(), bytes.size());
    }
    lock.lock();
    offer.open = false;
    world_.changed_.notify_all();
  }

 private:
  SharedWorld& world_;
  int64_t rank_;
};

SharedWorld::SharedWorld(std::vector<backend::Backend*> backends)
    : backends_(std::move(backends)), offers_(backends_.size() * backends_.size()) {
  for (int64_t rank = 0; rank < std::ssize(backends_); ++rank) {
    ends_.push_back(std::make_unique<End>(*this, rank));
  }
}

SharedWorld::~SharedWorld() = default;

SharedWorld::Offer& SharedWorld::offer(int64_t from, int64_t to) {
  return offers_[from * ends_.size() + static_cast<size_t>(to)];
}

void SharedWorld::wait(std::unique_lock<std::mutex>& lock, const bool& open, bool wanted) {
  changed_.wait(lock, [&] { return aborted_ || open == wanted; });
  if (aborted_) throw RankLost();
}

void SharedWorld::abort() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace plimsoll::engine
