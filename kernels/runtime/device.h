// Devices, memory, streams and events of the CUDA runtime, each owned by an object.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backend/device.h"
#include "kernels/runtime/nvml.h"
#include "memory/host_memory.h"

namespace plimsoll::kernels {

/// Properties of device `index`, without its free memory (which takes a context).
backend::DeviceInfo describe_device(int index);

/// Throws Error where this build has no code that runs on the device, the current one.
void require_code(const backend::DeviceInfo& info);

/// The driver, its devices for this process (the driver applies CUDA_VISIBLE_DEVICES), and why
/// there are none.
backend::DriverState driver_state();

/// Makes the device current for the calling thread.
void set_device(int index);
/// Makes the device current, with a context.
void use_device(int index);
int current_device();

/// True when a device can read another one's memory.
bool can_read(int index, int other);

/// NVML's name of a device.
CardName card_name(int index);

/// Bytes in use on a device by all processes, by the driver's own figure; it takes no context.
std::optional<uint64_t> device_bytes_in_use(int index);

/// Bytes that this process has of a device, and the source: the driver where its list names the
/// process, else our own count of the allocations by the classes below.
struct ProcessMemory {
  uint64_t bytes = 0;
  backend::MemorySource source = backend::MemorySource::allocations;
};
ProcessMemory process_memory(int index);

struct DeviceMemoryInfo {
  size_t free = 0;
  size_t total = 0;
};
/// Memory of the current device, for all processes together.
DeviceMemoryInfo device_memory_info();

/// Memory allocated by this process through the classes below, and kernels used for the first time
/// (whose code the driver loads to the device), since `seal_allocations()`: after a launch is
/// sealed nothing may be allocated.
struct AllocationCount {
  int64_t device = 0;
  int64_t pinned = 0;
  int64_t kernels = 0;
  bool operator==(const AllocationCount&) const = default;
};
void note_kernel_load();
AllocationCount allocations_since_seal();
void seal_allocations();
void unseal_allocations();

/// One allocation on the current device.
class DeviceMemory final : public memory::Memory {
 public:
  /// Throws Error(does_not_fit) when the driver refuses.
  explicit DeviceMemory(size_t bytes);
  ~DeviceMemory() override;

 private:
  int device_;
};

/// Pinned host memory: the device copies from and to it without the host.
class PinnedMemory final : public memory::Memory {
 public:
  explicit PinnedMemory(size_t bytes);
  ~PinnedMemory() override;
};

/// A stream that does not wait for the default one.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait() const;

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  enum class Timing : uint8_t { off, on };
  explicit Event(Timing timing = Timing::off);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream);
  /// Blocks the host until the event. Returns at once for an event that was never recorded.
  void wait() const;
  [[nodiscard]] bool done() const;
  /// Seconds between two events, which must both have been recorded and be complete.
  [[nodiscard]] double seconds_since(const Event& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// Copies host to device, or device to host, in the stream's order.
void copy_to_device(void* to, const void* from, size_t bytes, cudaStream_t stream);
void copy_to_host(void* to, const void* from, size_t bytes, cudaStream_t stream);

}  // namespace plimsoll::kernels
