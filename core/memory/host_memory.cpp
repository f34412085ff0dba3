#include "memory/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/amount.h"
#include "base/error.h"
#include "base/size_text.h"
#include "memory/available.h"

namespace plimsoll::memory {
HostMemory::HostMemory(size_t bytes) {
  bytes_ = std::max<size_t>(bytes, 1);
  require({.all = bytes});
  data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) {
    fail(ExitCode::does_not_fit, "the system refuses {} of memory ({}); lower --cpu-kvcache-space",
         size_text(uint64_t{bytes}), std::strerror(errno));
  }
  // Weights and KV blocks are streamed: huge pages save a tenth of the time where they exist.
  madvise(data_, bytes_, MADV_HUGEPAGE);
}

HostMemory::~HostMemory() {
  munmap(data_, bytes_);
}

}  // namespace plimsoll::memory
