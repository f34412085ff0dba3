#include "kernels/runtime/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "kernels/runtime/code.h"
#include "kernels/runtime/cuda_error.h"

namespace plimsoll::kernels {
namespace {

std::atomic<bool> sealed{false};
std::atomic<int64_t> device_allocations{0};
std::atomic<int64_t> pinned_allocations{0};
std::atomic<int64_t> late_kernels{0};
/// Held now, by device; machines have no more.
constexpr size_t kMostDevices = 64;
std::array<std::atomic<uint64_t>, kMostDevices> device_bytes{};

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

void require_code(const backend::DeviceInfo& info) {
  const std::string trouble = code_trouble();
  if (trouble.empty()) return;
  fail(ExitCode::device_lost,
       "this build has no code for {} (compute capability {}.{}): {}; build it with "
       "-DCMAKE_CUDA_ARCHITECTURES={}, or take --device cpu",
       info.name, info.compute_capability / 10, info.compute_capability % 10, trouble,
       info.compute_capability);
}

// Reads the driver's state. No failure ends the command: work on the CPU needs no driver.
backend::DriverState driver_state() {
  backend::DriverState state;
  ignore(cudaDriverGetVersion(&state.driver));
  ignore(cudaRuntimeGetVersion(&state.runtime));
  const cudaError_t status = cudaGetDeviceCount(&state.devices);
  if (status == cudaSuccess) return state;
  state.devices = 0;
  if (status != cudaErrorNoDevice) {
    state.trouble = fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  }
  ignore(cudaGetLastError());  // later calls start clean
  return state;
}

void set_device(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
}

int current_device() {
  int index = 0;
  check(cudaGetDevice(&index), "cudaGetDevice");
  return index;
}

void use_device(int index) {
  set_device(index);
  check(cudaFree(nullptr), "cudaFree (context)");
}

bool can_read(int index, int other) {
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, index, other), "cudaDeviceCanAccessPeer");
  return can != 0;
}

CardName card_name(int index) {
  CardName name;
  char address[32] = {};
  check(cudaDeviceGetPCIBusId(address, sizeof address, index), "cudaDeviceGetPCIBusId");
  name.pci = address;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) name.uuid += '-';
    name.uuid += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return name;
}

std::optional<uint64_t> device_bytes_in_use(int index) {
  return Nvml::installed().used_bytes(card_name(index));
}

ProcessMemory process_memory(int index) {
  const uint64_t own = device_bytes.at(static_cast<size_t>(index)).load();
  const auto told =
      Nvml::installed().process_bytes(card_name(index), static_cast<unsigned>(getpid()));
  // Another process of that number, in a container's counting, would have less.
  if (told && *told >= own) return {*told, backend::MemorySource::driver};
  return {own, backend::MemorySource::allocations};
}

DeviceMemoryInfo device_memory_info() {
  DeviceMemoryInfo info;
  check(cudaMemGetInfo(&info.free, &info.total), "cudaMemGetInfo");
  return info;
}

AllocationCount allocations_since_seal() {
  return {device_allocations.load(), pinned_allocations.load(), late_kernels.load()};
}

void seal_allocations() {
  device_allocations.store(0);
  pinned_allocations.store(0);
  late_kernels.store(0);
  sealed.store(true);
}

void note_kernel_load() {
  if (sealed.load()) ++late_kernels;
}

void unseal_allocations() {
  sealed.store(false);
}

DeviceMemory::DeviceMemory(size_t bytes) : device_(current_device()) {
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
  device_bytes.at(static_cast<size_t>(device_)) += bytes;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_bytes.at(static_cast<size_t>(device_)) -= bytes_;
  ignore(cudaSetDevice(device_));
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
