// Which of the build's code runs on the current device.
#pragma once

#include <string>

namespace plimsoll::kernels {

/// Why none of it does: the build is for other devices. Empty where some does.
std::string code_trouble();
/// Capability that the code was compiled for: 80 where the driver compiles 8.0's for a newer
/// device.
int code_capability();
/// Whether it lets kernels overlap.
bool code_overlaps();

}  // namespace plimsoll::kernels
