// The code of this build that runs on the current device.
#pragma once

#include <string>

namespace plimsoll::kernels {

/// Why no code of this build runs on the device: the build is for other devices. Empty where some
/// does.
std::string code_trouble();
/// Capability that the running code was compiled for: 80 where the driver compiles 8.0's for a
/// newer device.
int code_capability();
/// True when the running code lets kernels overlap.
bool code_overlaps();

}  // namespace plimsoll::kernels
