#include "kernels/runtime/code.h"

#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

/// Compiled as all are, and never launched.
__global__ void probe_kernel(int*) {
  wait_for_previous();
}

}  // namespace

std::string code_trouble() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (status == cudaSuccess) return "";
  (void)cudaGetLastError();
  return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
}

int code_capability() {
  cudaFuncAttributes attributes{};
  check_launch(cudaFuncGetAttributes(&attributes, probe_kernel), "probe");
  return attributes.ptxVersion;
}

bool code_overlaps() {
  return can_overlap(reinterpret_cast<const void*>(&probe_kernel));
}

}  // namespace plimsoll::kernels
