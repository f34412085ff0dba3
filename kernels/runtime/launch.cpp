#include "kernels/runtime/launch.h"

#include "kernels/runtime/cuda_error.h"

namespace plimsoll::kernels {

bool can_overlap() {
  static const bool answer = [] {
    int device = 0;
    int major = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
          "cudaDeviceGetAttribute");
    return major >= 9;
  }();
  return answer;
}

void check_launch(cudaError_t status, const char* name) {
  check(status, name);
}

}  // namespace plimsoll::kernels
