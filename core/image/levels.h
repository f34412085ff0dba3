// Memory of images' bytes: not cleared before it is filled, and in large pages where it is large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace plimsoll::image {

/// Allocates memory whose pages are made when they are first written. For large images that costs
/// as much as resizing them, so they ask for large pages. Throws std::bad_alloc.
void* take_levels(size_t bytes);
void give_levels(void* levels, size_t bytes) noexcept;

template <typename T>
struct LevelAllocator {
  using value_type = T;
  LevelAllocator() = default;
  template <typename U>
  LevelAllocator(const LevelAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t count) { return static_cast<T*>(take_levels(count * sizeof(T))); }
  void deallocate(T* levels, size_t count) noexcept { give_levels(levels, count * sizeof(T)); }
  /// Leaves elements without a value uninitialised.
  template <typename U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Values>
  void construct(U* at, Values&&... values) noexcept {
    ::new (static_cast<void*>(at)) U(static_cast<Values&&>(values)...);
  }
  friend bool operator==(const LevelAllocator&, const LevelAllocator&) { return true; }
};

/// Bytes of images: Levels(n) is uninitialised, Levels(n, 0) zeros.
using Levels = std::vector<uint8_t, LevelAllocator<uint8_t>>;

}  // namespace plimsoll::image
