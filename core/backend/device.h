// The devices of this machine and a backend on one of them. A build without CUDA has none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace plimsoll::backend {

/// Numbered as the driver numbers them for this process.
struct DeviceInfo {
  int index = 0;
  std::string name;
  uint64_t total_bytes = 0;  // that programs can have, of all processes
  uint64_t free_bytes = 0;
  int compute_capability = 0;  // 90: 9.0
  int processors = 0;          // streaming multiprocessors
  double bandwidth = 0;        // bytes per second, by the memory's clock
  uint64_t l2_bytes = 0;
};

struct DeviceOptions {
  int index = 0;
  int threads = 1;             // of the host: loading, reading logits
  bool deterministic = false;  // the same bits for a row in any batch
};

/// Memory of a backend's device as its driver tells it, in bytes.
struct DeviceMemory {
  uint64_t total = 0;
  uint64_t free = 0;     // now
  uint64_t outside = 0;  // what this process takes beside its arena at most, graphs included
  uint64_t process = 0;  // what this process has of it now; 0: the driver does not say
};

#ifdef PLIMSOLL_HAS_CUDA

inline constexpr bool kHasDeviceBackend = true;

/// Empty where there is no driver, or no device that this build has code for.
std::vector<DeviceInfo> list_devices();

/// Throws Error when the device cannot be used.
std::unique_ptr<Backend> make_device_backend(const DeviceOptions& options);

/// Of a backend by make_device_backend, when steps of `graphs` sizes of this model are recorded.
DeviceMemory device_memory(const Backend& backend, const model::ModelSpec& spec, int64_t graphs);

#else

inline constexpr bool kHasDeviceBackend = false;

inline std::vector<DeviceInfo> list_devices() {
  return {};
}

inline std::unique_ptr<Backend> make_device_backend(const DeviceOptions&) {
  return nullptr;
}

inline DeviceMemory device_memory(const Backend&, const model::ModelSpec&, int64_t) {
  return {};
}

#endif

}  // namespace plimsoll::backend
