// The memory behind an arena: what a device gives, and the host's own.
#pragma once

#include <cstddef>

namespace plimsoll::memory {

/// One piece of memory, given back at the end. Whether the host may read it is known to who took
/// it.
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

/// One zeroed mapping of the host's. Pages come from the system when they are first touched, huge
/// ones where it has them.
class HostMemory final : public Memory {
 public:
  /// Throws Error(does_not_fit) when the machine or a control group does not have as much left
  /// (available.h).
  explicit HostMemory(size_t bytes);
  ~HostMemory() override;
};

}  // namespace plimsoll::memory
