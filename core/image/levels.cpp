#include "image/levels.h"

#include <sys/mman.h>

#include <cstdlib>

namespace plimsoll::image {
namespace {

constexpr size_t kPage = size_t{2} << 20;

size_t rounded(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

void* take_levels(size_t bytes) {
  if (bytes < kPage) {
    void* levels = std::malloc(bytes);
    if (levels == nullptr) throw std::bad_alloc();
    return levels;
  }
  // malloc would leave holes between blocks so aligned.
  const size_t size = rounded(bytes);
  void* mapped =
      ::mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* first = static_cast<std::byte*>(mapped);
  const size_t before = (kPage - reinterpret_cast<uintptr_t>(mapped) % kPage) % kPage;
  if (before > 0) ::munmap(first, before);
  if (before < kPage) ::munmap(first + before + size, kPage - before);
  // A last page that is less than half in use would take more memory than it is worth.
  ::madvise(first + before, (bytes + kPage / 2) / kPage * kPage, MADV_HUGEPAGE);
  return first + before;
}

void give_levels(void* levels, size_t bytes) noexcept {
  bytes < kPage ? std::free(levels) : static_cast<void>(::munmap(levels, rounded(bytes)));
}

}  // namespace plimsoll::image
