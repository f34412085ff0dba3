// The devices of this machine and a backend on one of them. A build without CUDA has none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "memory/device_overheads.h"

namespace plimsoll::backend {

/// A device, with the number that the driver gives it in this process.
struct DeviceInfo {
  int index = 0;
  std::string name;
  uint64_t total_bytes = 0;  // for all processes together, without the driver's own
  uint64_t free_bytes = 0;
  int compute_capability = 0;  // 90: 9.0
  int processors = 0;          // streaming multiprocessors
  double bandwidth = 0;        // bytes per second, by the memory's clock
  uint64_t l2_bytes = 0;
  std::vector<int> peers = {};  // devices whose memory it can read, as ranks of -tp do
};

/// State of the driver, apart from its devices. Versions as CUDA writes them: 12040 is 12.4.
struct DriverState {
  int driver = 0;   // the newest CUDA that it runs; 0: there is no driver
  int runtime = 0;  // this build's; 0: none
  /// Devices that the driver shows to this process, with or without code for them in this build.
  int devices = 0;
  std::string trouble;  // why it shows no devices; empty where there simply are none
};

struct DeviceOptions {
  int index = 0;
  int threads = 1;             // of the host: loading, reading logits
  bool deterministic = false;  // the same bits for a row in any batch, at any width
  bool overlap = true;         // kernels may start before the kernels ahead of them have ended
  /// Tokens of context from which prefill takes kernels for Hopper, where there are any; 0: never;
  /// absent: from where a trial at launch finds them faster.
  std::optional<int64_t> hopper_from{};
  /// NCCL's library, for ranks that cannot read each other's memory; empty: the system's.
  std::string nccl{};
};

/// Source of the figure of a process's memory on a device: the driver, context and modules
/// included, or our own count of our allocations.
enum class MemorySource : uint8_t { driver, allocations };

/// Memory of a backend's device by its driver, in bytes.
struct DeviceMemory {
  uint64_t total = 0;
  uint64_t free = 0;     // now
  uint64_t outside = 0;  // what this process takes outside its arena at most, graphs included
  uint64_t process = 0;  // what this process has of the device's memory now
  MemorySource source = MemorySource::allocations;  // of `process`
};

#ifdef PLIMSOLL_HAS_CUDA

inline constexpr bool kHasDeviceBackend = true;

/// The devices that this build has code for; empty without a driver.
std::vector<DeviceInfo> list_devices();
DriverState driver_state();

/// Makes the backend of a device. Throws Error when the device cannot be used.
std::unique_ptr<Backend> make_device_backend(const DeviceOptions& options);

/// Notes for people on what a launch does more slowly than its device could, and why, and on the
/// attention kernels that it takes beside the usual ones; valid after Backend::finish_launch().
std::vector<std::string> device_notes(const Backend& backend);

/// Memory of the device of a backend by make_device_backend, when steps of `graphs` sizes of this
/// model are recorded and its ranks use NCCL as `nccl` says.
DeviceMemory device_memory(const Backend& backend, const model::ModelSpec& spec, int64_t graphs,
                           const memory::NcclShape& nccl);

#else

inline constexpr bool kHasDeviceBackend = false;

inline std::vector<DeviceInfo> list_devices() {
  return {};
}

inline DriverState driver_state() {
  return {};
}

inline std::unique_ptr<Backend> make_device_backend(const DeviceOptions&) {
  return nullptr;
}

inline std::vector<std::string> device_notes(const Backend&) {
  return {};
}

inline DeviceMemory device_memory(const Backend&, const model::ModelSpec&, int64_t,
                                  const memory::NcclShape&) {
  return {};
}

#endif

}  // namespace plimsoll::backend
