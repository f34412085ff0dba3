#include "image/levels.h"

#include <sys/mman.h>

#include <cstdlib>

namespace plimsoll::image {
namespace {

constexpr size_t kPage = size_t{2} << 20;

}  // namespace

void* take_levels(size_t bytes) {
  if (bytes < kPage) {
    void* levels = std::malloc(bytes);
    if (levels == nullptr) throw std::bad_alloc();
    return levels;
  }
  void* levels = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (levels == nullptr) throw std::bad_alloc();
  // A last one that is less than half in use would take more memory than it is worth.
  ::madvise(levels, (bytes + kPage / 2) / kPage * kPage, MADV_HUGEPAGE);
  return levels;
}

void give_levels(void* levels) noexcept {
  std::free(levels);
}

}  // namespace plimsoll::image
