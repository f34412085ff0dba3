#include "memory/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace plimsoll::memory {

namespace {
// Never dereferenced: far from null, so that pointer arithmetic in shape code stays defined in
// practice.
// NOLINTNEXTLINE(performance-no-int-to-ptr)
std::byte* const kCountingBase = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
}  // namespace

Arena::Arena(std::byte* base, size_t capacity, bool counting)
    : base_(base), capacity_(capacity), counting_(counting) {}

Arena Arena::counting() {
  return Arena(kCountingBase, std::numeric_limits<size_t>::max() / 2, true);
}

Arena Arena::placing(void* base, size_t bytes) {
  return Arena(static_cast<std::byte*>(base), bytes, false);
}

void* Arena::take(std::string_view name, size_t bytes) {
  const size_t offset = used_;
  const size_t padded = aligned(bytes);
  if (padded < bytes || padded > capacity_ - offset) {
    throw std::logic_error(
        fmt::format("arena: '{}' wants {} bytes, {} are left", name, bytes, capacity_ - offset));
  }
  used_ = offset + padded;
  peak_ = std::max(peak_, used_);
  if (scopes_ == 0) regions_.push_back({prefix_ + std::string(name), offset, padded});
  return base_ + offset;
}

}  // namespace plimsoll::memory
