// Of CUDA's header what FlashInfer's prefill kernel uses, for the emulator.
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
