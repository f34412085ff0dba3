// The runtime's calls on the host's memory.
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "emulation/card.h"
#include "emulation/streams.h"

namespace plimsoll::emulation {

thread_local int device_here = 0;

namespace {

constexpr size_t kAlignment = 256;  // what cudaMalloc promises
constexpr size_t kGuard = 256;
constexpr unsigned char kCanary = 0xa5;
constexpr size_t kDeviceBytes = size_t{4} << 30;
constexpr int kProcessors = 4;

struct Allocations {
  std::map<const void*, size_t> sizes;
  size_t bytes = 0;
  std::map<const void*, size_t> pinned;  // memory of the host that devices may use
};
Allocations& allocations() {
  static Allocations instance;
  return instance;
}

std::set<std::pair<int, int>>& open_peers() {
  static std::set<std::pair<int, int>> instance;
  return instance;
}

std::map<const void*, size_t>& allowed_shared() {
  static std::map<const void*, size_t> instance;
  return instance;
}

cudaError_t allocate(void** to, size_t bytes) {
  const auto lock = host_lock();
  if (bytes > kDeviceBytes - allocations().bytes) return cudaErrorMemoryAllocation;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(memory, 0xff, bytes);
  std::memset(memory + bytes, kCanary, rounded - bytes);
  allocations().sizes[memory] = bytes;
  allocations().bytes += bytes;
  *to = memory;
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  finish_all_streams();
  const auto lock = host_lock();
  const auto found = allocations().sizes.find(memory);
  if (found == allocations().sizes.end()) return cudaErrorInvalidValue;
  const auto* end = static_cast<unsigned char*>(memory) + found->second;
  bool intact = true;
  for (size_t i = 0; i < kGuard / 2; ++i) intact = intact && end[i] == kCanary;
  allocations().bytes -= found->second;
  allocations().sizes.erase(found);
  std::free(memory);
  return intact ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

std::span<std::byte> allocation_of(void* at) {
  const auto lock = host_lock();
  for (const auto* sizes : {&allocations().sizes, &allocations().pinned}) {
    const auto next = sizes->upper_bound(at);
    if (next == sizes->begin()) continue;
    const auto& [first, size] = *std::prev(next);
    auto* const begin = static_cast<std::byte*>(const_cast<void*>(first));
    if (static_cast<std::byte*>(at) < begin + size) return {begin, size};
  }
  return {};
}

cudaError_t check_shared(const void* function, size_t bytes) {
  const auto lock = host_lock();
  const auto found = allowed_shared().find(function);
  const size_t allowed = found == allowed_shared().end() ? kSharedByDefault : found->second;
  return bytes <= allowed ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace plimsoll::emulation

using namespace plimsoll::emulation;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    default:
      return "invalid argument";
  }
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    default:
      return "cudaErrorInvalidValue";
  }
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaPeekAtLastError() {
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = card.devices_status == cudaSuccess ? card.devices : 0;
  return static_cast<cudaError_t>(card.devices_status);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = card.driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = card.runtime;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_here;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= card.devices) return cudaErrorInvalidValue;
  device_here = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = card.peers && device != peer ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!card.peers || peer == device_here) return cudaErrorInvalidValue;
  const bool is_new = open_peers().emplace(device_here, peer).second;
  return is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulation");
  properties->totalGlobalMem = kDeviceBytes;
  properties->major = card.capability / 10;
  properties->minor = card.capability % 10;
  for (size_t i = 0; i < sizeof properties->uuid.bytes; ++i)
    properties->uuid.bytes[i] = static_cast<char>(0xa0 + i);
  properties->multiProcessorCount = kProcessors;
  properties->l2CacheSize = 1 << 20;
  properties->memoryBusWidth = 128;
  properties->sharedMemPerBlockOptin = kMaxShared;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(kMaxShared);
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = kProcessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = card.capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = card.capability % 10;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = 1 << 20;
      return cudaSuccess;
    default:
      *value = 1;
      return cudaSuccess;
  }
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int length, int) {
  if (length > 0) *address = 0;  // the address of nothing
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = kDeviceBytes - allocations().bytes;
  *total = kDeviceBytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** to, size_t bytes) {
  return allocate(to, bytes);
}
cudaError_t cudaFree(void* memory) {
  return release(memory);
}
cudaError_t cudaHostAlloc(void** to, size_t bytes, unsigned) {
  *to = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*to == nullptr) return bytes > 0 ? cudaErrorMemoryAllocation : cudaSuccess;
  const auto lock = host_lock();
  allocations().pinned[*to] = bytes;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** to, size_t bytes) {
  return cudaHostAlloc(to, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* memory) {
  finish_all_streams();
  {
    const auto lock = host_lock();
    allocations().pinned.erase(memory);
  }
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice) {
    const auto* first = static_cast<const std::byte*>(from);
    copy_by_default_stream([to, staged = std::vector<std::byte>(first, first + bytes)] {
      if (!staged.empty()) std::memcpy(to, staged.data(), staged.size());
    });
    return cudaSuccess;
  }
  finish_default_stream();
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  submit(stream, [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  submit(stream, [=] {
    for (size_t i = 0; i < height; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * to_pitch,
                  static_cast<const std::byte*>(from) + i * from_pitch, width);
  });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  finish_default_stream();
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  submit(stream, [=] {
    if (bytes > 0) std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (static_cast<size_t>(value) > kMaxShared) return cudaErrorInvalidValue;
  const auto lock = host_lock();
  allowed_shared()[function] = static_cast<size_t>(value);
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void*) {
  *to = {};
  if (card.code == 0) return static_cast<cudaError_t>(209);  // cudaErrorNoKernelImageForDevice
  to->maxThreadsPerBlock = static_cast<int>(kMaxThreads);
  to->ptxVersion = card.code;
  to->binaryVersion = card.capability;
  return cudaSuccess;
}
