// Main of the kernels' tests on a device: without one they are skipped.
#define CATCH_CONFIG_RUNNER
#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "skipped.h"

int main(int argc, char** argv) {
  // Ranks that share a device wait for each other in kernels: none may load code meanwhile.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no device; test_kernels runs the same cases in emulation");
    return plimsoll::testing::kSkippedStatus;
  }
  return plimsoll::testing::status_after(Catch::Session().run(argc, argv));
}
