// Capabilities of a card that follow from its compute capability (CUDA C++ Programming Guide,
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
  consumer_blackwell,  // 11 and later: lacks tcgen05's large tiles
};

struct Capability {
  Architecture architecture = Architecture::hopper;
  bool known = false;    // false: the figures of a Hopper card are assumed
  bool bfloat16 = true;  // computes in bfloat16
  bool fp8 = true;       // multiplies in fp8
  /// Has warp-group products or their successors: Hopper's and data-centre Blackwell's own
  /// attention kernels.
  bool wide_tiles = true;
};

/// Capabilities of a card; null, or a card without compute capability in the catalogue: assumed.
Capability capability_of(const Gpu* gpu);

}  // namespace plimsoll::hardware
