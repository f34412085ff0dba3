#include "kernels/runtime/device.h"

#include <atomic>

#include "kernels/runtime/cuda_error.h"
#include "kernels/runtime/nvml.h"

namespace plimsoll::kernels {
namespace {

std::atomic<bool> sealed{false};
std::atomic<int64_t> device_allocations{0};
std::atomic<int64_t> pinned_allocations{0};

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

backend::DeviceInfo describe_device(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  backend::DeviceInfo info{.index = index,
                           .name = properties.name,
                           .total_bytes = properties.totalGlobalMem,
                           .free_bytes = 0,
                           .compute_capability = properties.major * 10 + properties.minor,
                           .processors = properties.multiProcessorCount,
                           .bandwidth = 0,
                           .l2_bytes = static_cast<uint64_t>(properties.l2CacheSize)};
  // Double data rate: two bits a wire and clock.
  const double kilohertz = attribute(cudaDevAttrMemoryClockRate, index);
  const double wires = attribute(cudaDevAttrGlobalMemoryBusWidth, index);
  info.bandwidth = kilohertz * 1e3 * 2 * wires / 8;
  return info;
}

int count_devices() {
  int count = 0;
  // No driver, one that is too old, no device, devices that are not ready: none can be used, and
  // what runs on the CPU need not fail for it.
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    ignore(cudaGetLastError());  // later calls start clean
    return 0;
  }
  return count;
}

void use_device(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree (context)");
}

std::optional<uint64_t> device_bytes_in_use(int index) {
  char address[32] = {};
  check(cudaDeviceGetPCIBusId(address, sizeof address, index), "cudaDeviceGetPCIBusId");
  return used_bytes(address);
}

DeviceMemoryInfo device_memory_info() {
  DeviceMemoryInfo info;
  check(cudaMemGetInfo(&info.free, &info.total), "cudaMemGetInfo");
  return info;
}

AllocationCount allocations_since_seal() {
  return {device_allocations.load(), pinned_allocations.load()};
}

void seal_allocations() {
  device_allocations.store(0);
  pinned_allocations.store(0);
  sealed.store(true);
}

void unseal_allocations() {
  sealed.store(false);
}

DeviceMemory::DeviceMemory(size_t bytes) {
  bytes_ = bytes;
  if (sealed.load()) ++device_allocations;
  if (bytes == 0) return;
  const cudaError_t status = cudaMalloc(&data_, bytes);
  if (status == cudaErrorMemoryAllocation) {
    ignore(cudaGetLastError());
    const DeviceMemoryInfo now = device_memory_info();
    fail(ExitCode::does_not_fit,
         "the device refuses {:.2f} GiB in one piece; {:.2f} of {:.2f} GiB are free (other "
         "processes count); lower --gpu-memory-utilization or --max-model-len",
         static_cast<double>(bytes) / (1u << 30), static_cast<double>(now.free) / (1u << 30),
         static_cast<double>(now.total) / (1u << 30));
  }
  check(status, "cudaMalloc");
}

DeviceMemory::~DeviceMemory() {
  ignore(cudaFree(data_));
}

PinnedMemory::PinnedMemory(size_t bytes) {
  bytes_ = bytes;
  if (sealed.load()) ++pinned_allocations;
  if (bytes == 0) return;
  const cudaError_t status = cudaHostAlloc(&data_, bytes, cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    ignore(cudaGetLastError());
    fail(ExitCode::output_unwritable, "out of host memory: {} bytes of pinned memory refused",
         bytes);
  }
  check(status, "cudaHostAlloc");
}

PinnedMemory::~PinnedMemory() {
  ignore(cudaFreeHost(data_));
}

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  ignore(cudaStreamDestroy(stream_));
}

void Stream::wait() const {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

Event::Event(Timing timing) {
  const unsigned flags = timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
}

Event::~Event() {
  ignore(cudaEventDestroy(event_));
}

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}

void Event::wait() const {
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

bool Event::done() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

double Event::seconds_since(const Event& start) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

void copy_to_device(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync (in)");
}

void copy_to_host(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync (out)");
}

}  // namespace plimsoll::kernels
