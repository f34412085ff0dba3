// The card that the emulator imitates, and its driver; tests may set another one.
#pragma once

namespace plimsoll::emulation {

struct Card {
  int capability = 80;  // 80: 8.0
  int code = 80;        // capability that the kernels' code was compiled for; 0: for other cards
  int driver = 13000;   // newest CUDA of the driver; 0: none
  int runtime = 13000;
  int devices_status = 0;  // what cudaGetDeviceCount returns: a cudaError_t
  int devices = 1;
  bool peers = true;          // each can access the others' memory
  bool other_scales = false;  // cuBLASLt's of float8 lie otherwise than was thought
};
inline Card card;

/// A card of 9.0 with code for it, on which kernels overlap.
inline constexpr Card kHopper{.capability = 90, .code = 90};

}  // namespace plimsoll::emulation
