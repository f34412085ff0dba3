// The memory behind an arena on the host.
#pragma once

#include <cstddef>

namespace plimsoll::memory {

/// One zeroed mapping, given back at the end. Pages come from the system when they are first
/// touched, huge ones where it has them.
class HostMemory {
 public:
  /// Throws Error(output_unwritable) when the system refuses.
  explicit HostMemory(size_t bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace plimsoll::memory
