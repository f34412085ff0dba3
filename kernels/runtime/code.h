// Which of the build's code runs on the current device.
#pragma once

namespace plimsoll::kernels {

/// Capability that the code was compiled for: 80 where the driver compiles 8.0's for a newer
/// device.
int code_capability();
/// Whether it lets kernels overlap.
bool code_overlaps();

}  // namespace plimsoll::kernels
