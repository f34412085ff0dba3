// The memory behind an arena: a device's, or the host's.
#pragma once

#include <cstddef>

namespace plimsoll::memory {

/// One piece of memory, freed in the end. Its allocator knows whether the host may read it.
class Memory {
 public:
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] size_t size() const { return bytes_; }

 protected:
  Memory() = default;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// A zeroed mapping of host memory. Pages come from the system when they are first touched, huge
/// ones where it has them.
class HostMemory final : public Memory {
 public:
  /// Throws Error(does_not_fit) when the machine or a control group has less left (available.h).
  explicit HostMemory(size_t bytes);
  ~HostMemory() override;
};

}  // namespace plimsoll::memory
