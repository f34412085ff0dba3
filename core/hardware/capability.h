// What a card can do, as facts that follow from its compute capability (CUDA C++ Programming Guide,
// "Compute Capabilities"; kernels as vLLM chooses them).
#pragma once

#include "hardware/gpu_catalogue.h"

namespace plimsoll::hardware {

enum class Architecture {
  older,               // below 8.0
  ampere,              // 8.0 to 8.8
  ada,                 // 8.9
  hopper,              // 9.x
  blackwell,           // 10.x: of data centres
  consumer_blackwell,  // 11 and later: without tcgen05's large tiles
};

struct Capability {
  Architecture architecture = Architecture::hopper;
  bool known = false;      // false: the figures of a Hopper card are assumed
  bool bfloat16 = true;    // computes in it
  bool fp8 = true;         // multiplies in it
  bool wide_tiles = true;  // has warp-group products or their successors: Hopper's and data-centre
                           // Blackwell's own attention kernels
};

/// Of a card; null or without a compute capability in the catalogue: assumed.
Capability capability_of(const Gpu* gpu);

}  // namespace plimsoll::hardware
