#include "kernels/runtime/launch.h"

#include <map>
#include <mutex>
#include <utility>

#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/device.h"

namespace plimsoll::kernels {
namespace {

/// Capability from which on code waits by itself (wait_for_previous).
constexpr int kWaits = 90;

struct Kernels {
  std::mutex mutex;
  std::map<std::pair<int, const void*>, bool> overlap;  // of those met, by device
  bool allowed = true;
};

Kernels& kernels_met() {
  static Kernels instance;
  return instance;
}

}  // namespace

void allow_overlap(Overlap overlap) {
  Kernels& met = kernels_met();
  const std::lock_guard lock(met.mutex);
  met.allowed = overlap == Overlap::yes;
  met.overlap.clear();
}

bool can_overlap(const void* kernel) {
  Kernels& met = kernels_met();
  const std::pair key(current_device(), kernel);
  {
    const std::lock_guard lock(met.mutex);
    const auto found = met.overlap.find(key);
    if (found != met.overlap.end()) return found->second;
  }
  // Without the lock: others' launches need not wait for what is loaded here.
  note_kernel_load();
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  const std::lock_guard lock(met.mutex);
  // The version that the code was compiled for, for machine code too; binaryVersion is the
  // device's.
  return met.overlap[key] = met.allowed && attributes.ptxVersion >= kWaits;
}

void check_launch(cudaError_t status, const char* name) {
  check(status, name);
}

}  // namespace plimsoll::kernels
