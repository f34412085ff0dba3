// Memory-mapped files that may shrink or fail to read while they are mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace plimsoll::checkpoint {

/// A regular file, mapped read-only. Symlinks are followed.
class MappedFile {
 public:
  /// Throws Error(checkpoint_unusable) for what cannot be opened, is no regular file or is empty.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }
  /// Maps the pages of a range at once, which costs less than a fault for each few of them. A hint:
  /// what cannot be read shows when it is read.
  void prefault(const std::byte* from, size_t count) const;
  /// A copy of the first `count` bytes.
  [[nodiscard]] std::string head(size_t count) const;

 private:
  friend class GuardedRead;
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  mutable std::atomic<bool> lost_ = false;  // set by the SIGBUS handler
};

/// While it lives, this thread may read the file's map: pages that are gone read as zeros instead
/// of killing the process, and finish() says so.
class GuardedRead {
 public:
  explicit GuardedRead(const MappedFile& file);
  ~GuardedRead();
  GuardedRead(const GuardedRead&) = delete;
  GuardedRead& operator=(const GuardedRead&) = delete;
  /// Throws Error(checkpoint_unusable) when part of the file could not be read.
  void finish() const;

 private:
  const MappedFile& file_;
};

}  // namespace plimsoll::checkpoint
