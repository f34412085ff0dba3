// Stands in for CUDA's header in the emulator: the part that FlashInfer's prefill kernel uses.
#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups {

struct thread_block {
  void sync(EmulationSite site = EmulationSite::current()) const { __syncthreads(site); }
};

inline thread_block this_thread_block() {
  return {};
}

}  // namespace cooperative_groups
