#include "kernels/runtime/nvml.h"

#include <dlfcn.h>

#include <vector>

namespace plimsoll::kernels {
namespace {

constexpr int kTooSmall = 7;                        // NVML_ERROR_INSUFFICIENT_SIZE
constexpr unsigned long long kNotTold = ~0ull;      // NVML_VALUE_NOT_AVAILABLE
constexpr size_t kManyProcesses = size_t{1} << 16;  // a list that grows past it is not believed

template <typename Function>
void find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

NvmlTable load() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  int (*init)() = nullptr;
  find_function(library, "nvmlInit_v2", init);
  if (init == nullptr || init() != 0) return {};
  NvmlTable table;
  find_function(library, "nvmlDeviceGetHandleByUUID", table.by_uuid);
  find_function(library, "nvmlDeviceGetHandleByPciBusId_v2", table.by_pci);
  find_function(library, "nvmlDeviceGetMemoryInfo", table.memory);
  find_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", table.processes);
  return table;
}

}  // namespace

const Nvml& Nvml::installed() {
  static const Nvml nvml(load());
  return nvml;
}

// A part of a card first: its address is the whole card's.
std::optional<NvmlTable::Device> Nvml::find(const CardName& card) const {
  NvmlTable::Device device = nullptr;
  for (const char* kind : {"MIG-", "GPU-"}) {
    if (table_.by_uuid == nullptr || card.uuid.empty()) break;
    if (table_.by_uuid((kind + card.uuid).c_str(), &device) == 0) return device;
  }
  if (table_.by_pci == nullptr || card.pci.empty()) return std::nullopt;
  if (table_.by_pci(card.pci.c_str(), &device) != 0) return std::nullopt;
  return device;
}

std::optional<uint64_t> Nvml::used_bytes(const CardName& card) const {
  const auto device = find(card);
  NvmlTable::Memory memory{};
  if (!device || table_.memory == nullptr || table_.memory(*device, &memory) != 0) {
    return std::nullopt;
  }
  return memory.used;
}

std::optional<uint64_t> Nvml::process_bytes(const CardName& card, unsigned pid) const {
  const auto device = find(card);
  if (!device || table_.processes == nullptr) return std::nullopt;
  std::vector<NvmlProcess> processes(64);
  for (;;) {
    auto count = static_cast<unsigned>(processes.size());
    const int status = table_.processes(*device, &count, processes.data());
    if (status == kTooSmall && processes.size() < kManyProcesses) {
      processes.resize(processes.size() * 2);  // others may start meanwhile
      continue;
    }
    if (status != 0 || count > processes.size()) return std::nullopt;
    processes.resize(count);
    break;
  }
  for (const NvmlProcess& process : processes) {
    if (process.pid == pid && process.bytes != kNotTold) return process.bytes;
  }
  return std::nullopt;
}

}  // namespace plimsoll::kernels
