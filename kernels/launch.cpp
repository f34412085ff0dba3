#include "kernels/launch.h"

#include "kernels/cuda_error.h"

namespace plimsoll::kernels {

void check_launch(cudaError_t status, const char* name) {
  check(status, name);
}

}  // namespace plimsoll::kernels
