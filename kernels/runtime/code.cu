#include "kernels/runtime/code.h"

#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

/// Compiled as all are, and never launched.
__global__ void probe_kernel(int*) {
  wait_for_previous();
}

}  // namespace

int code_capability() {
  cudaFuncAttributes attributes{};
  check_launch(cudaFuncGetAttributes(&attributes, probe_kernel), "probe");
  return attributes.ptxVersion;
}

bool code_overlaps() {
  return can_overlap(reinterpret_cast<const void*>(&probe_kernel));
}

}  // namespace plimsoll::kernels
