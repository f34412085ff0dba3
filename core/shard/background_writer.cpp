#include "shard/background_writer.h"

namespace plimsoll::shard {

BackgroundWriter::BackgroundWriter(TemporaryFile& file)
    : file_(file), thread_([this](const std::stop_token& stop) { work(stop); }) {}

void BackgroundWriter::start(std::span<const std::byte> block) {
  wait();
  const std::lock_guard lock(mutex_);
  block_ = block;
  changed_.notify_all();
}

void BackgroundWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return block_.empty(); });
  if (failure_) std::rethrow_exception(failure_);
}

void BackgroundWriter::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !block_.empty(); })) {
    const auto block = block_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      file_.write(block.data(), block.size());
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    block_ = {};
    changed_.notify_all();
  }
}

}  // namespace plimsoll::shard
