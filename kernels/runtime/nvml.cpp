#include "kernels/runtime/nvml.h"

#include <dlfcn.h>

namespace plimsoll::kernels {
namespace {

// Of nvml.h; they have been the same since the library's first versions.
struct MemoryInfo {
  unsigned long long total, free, used;  // bytes
};
using Device = void*;
using Init = int (*)();
using GetDevice = int (*)(const char*, Device*);
using GetMemory = int (*)(Device, MemoryInfo*);

struct Nvml {
  GetDevice get_device = nullptr;
  GetMemory get_memory = nullptr;
};

Nvml load() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto init = reinterpret_cast<Init>(dlsym(library, "nvmlInit_v2"));
  if (init == nullptr || init() != 0) return {};
  return {reinterpret_cast<GetDevice>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2")),
          reinterpret_cast<GetMemory>(dlsym(library, "nvmlDeviceGetMemoryInfo"))};
}

}  // namespace

std::optional<uint64_t> used_bytes(const char* pci_address) {
  static const Nvml nvml = load();
  if (nvml.get_device == nullptr || nvml.get_memory == nullptr) return std::nullopt;
  Device device = nullptr;
  MemoryInfo info{};
  if (nvml.get_device(pci_address, &device) != 0) return std::nullopt;
  if (nvml.get_memory(device, &info) != 0) return std::nullopt;
  return info.used;
}

}  // namespace plimsoll::kernels
