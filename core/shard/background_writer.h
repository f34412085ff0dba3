// Writes a file's blocks beside the work that fills the next one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>

#include "shard/output_folder.h"

namespace plimsoll::shard {

class BackgroundWriter {
 public:
  /// `file` must outlive it.
  explicit BackgroundWriter(TemporaryFile& file);
  /// Waits for the block that is being written.
  ~BackgroundWriter() = default;
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  /// Appends `block`, which must stay as it is until the next call returns; waits for the block
  /// before it. Throws what writing that one threw.
  void start(std::span<const std::byte> block);
  /// Waits until the last block is written. Throws what writing it threw.
  void wait();

 private:
  void work(const std::stop_token& stop);

  TemporaryFile& file_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::span<const std::byte> block_;  // empty: nothing to do
  std::exception_ptr failure_;
  std::jthread thread_;  // the last member: it ends first
};

}  // namespace plimsoll::shard
