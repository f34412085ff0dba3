#include "memory/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace plimsoll::memory {

HostMemory::HostMemory(size_t bytes) {
  bytes_ = std::max<size_t>(bytes, 1);
  data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data_ == MAP_FAILED) {
    fail(ExitCode::output_unwritable,
         "out of memory: the system refuses {} bytes ({}); lower --cpu-kvcache-space", bytes,
         std::strerror(errno));
  }
  // Weights and KV blocks are streamed: huge pages save a tenth of the time where they exist.
  madvise(data_, bytes_, MADV_HUGEPAGE);
}

HostMemory::~HostMemory() {
  munmap(data_, bytes_);
}

}  // namespace plimsoll::memory
