// One contiguous region that holds everything, laid out by the constructors that use it: first
// counted, then placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rounding.h"

namespace plimsoll::memory {

/// A named piece of an arena. Offsets and bytes are those of the layout, equal in the counting and
/// the placing pass.
struct Region {
  std::string name;
  size_t offset = 0;
  size_t bytes = 0;
  bool operator==(const Region&) const = default;
};

/// A bump allocator in two modes. Counting: returns addresses that must not be read, and finds the
/// peak. Placing: returns addresses within the given memory; running past the end is our own bug
/// and throws std::logic_error naming the region, its size and what is left. Not thread-safe.
class Arena {
 public:
  /// Alignment of regions in bytes, as cudaMalloc promises and products on a device need; more than
  /// the host needs.
  static constexpr size_t kAlignment = 256;
  /// The room that `bytes` bytes take, padding included.
  static constexpr size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

  static Arena counting();
  static Arena placing(void* base, size_t bytes);

  [[nodiscard]] bool is_counting() const { return counting_; }

  /// Takes `bytes` bytes, aligned to kAlignment. Name the region by its use ("weights", "qkv").
  void* take(std::string_view name, size_t bytes);
  /// Like take, for `count` elements.
  template <typename T>
  T* take_array(std::string_view name, size_t count) {
    return static_cast<T*>(take(name, count * sizeof(T)));
  }

  /// Largest extent so far, in bytes.
  [[nodiscard]] size_t peak() const { return peak_; }
  [[nodiscard]] size_t used() const { return used_; }
  /// Bytes that can still be taken.
  [[nodiscard]] size_t left() const { return capacity_ - used_; }
  /// Regions taken outside any Scope, in order: the ledger.
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }

 private:
  friend class Scope;
  friend class Prefix;
  Arena(std::byte* base, size_t capacity, bool counting);

  std::byte* base_;
  size_t capacity_;
  bool counting_;
  size_t used_ = 0;
  size_t peak_ = 0;
  int scopes_ = 0;
  std::string prefix_;
  std::vector<Region> regions_;
};

/// A scope of an arena: what is taken while it is open is given back at its end, so that the
/// scratch of ops that never live together shares space.
class Scope {
 public:
  explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) { ++arena_.scopes_; }
  ~Scope() {
    arena_.used_ = mark_;
    --arena_.scopes_;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Arena& arena_;
  size_t mark_;
};

/// Begins the names of regions that are taken while it is open.
class Prefix {
 public:
  Prefix(Arena& arena, std::string_view prefix) : arena_(arena) { arena_.prefix_ = prefix; }
  ~Prefix() { arena_.prefix_.clear(); }
  Prefix(const Prefix&) = delete;
  Prefix& operator=(const Prefix&) = delete;

 private:
  Arena& arena_;
};

}  // namespace plimsoll::memory
