// The driver's own figures of a card's memory, which need no context: NVML, where it is installed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::kernels {

/// Names under which NVML may know a device of the runtime.
struct CardName {
  std::string uuid;  // "4d8f...-...", without the "GPU-" or "MIG-" in front
  std::string pci;   // "0000:3B:00.0"
};

/// One process on a card, as NVML reports it (nvmlProcessInfo_t since version 11.6).
struct NvmlProcess {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

/// The few functions of nvml.h that are called; 0 is success. Their form has not changed since
/// version 11.6.
struct NvmlTable {
  using Device = void*;
  struct Memory {
    unsigned long long total, free, used;  // bytes
  };
  int (*by_uuid)(const char*, Device*) = nullptr;
  int (*by_pci)(const char*, Device*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*processes)(Device, unsigned* count, NvmlProcess*) = nullptr;
};

/// Queries to NVML. No answer where the library, the card or the figure is missing.
class Nvml {
 public:
  explicit Nvml(NvmlTable table) : table_(table) {}
  /// The machine's library, opened once.
  static const Nvml& installed();

  [[nodiscard]] bool is_there() const { return table_.memory != nullptr; }
  /// Bytes in use on a card, by all processes together; for a part of a card (MIG) in that part.
  [[nodiscard]] std::optional<uint64_t> used_bytes(const CardName& card) const;
  /// Bytes that one process has of a card, context and modules included. In a container the driver
  /// may number processes otherwise: then there is no answer.
  [[nodiscard]] std::optional<uint64_t> process_bytes(const CardName& card, unsigned pid) const;

 private:
  [[nodiscard]] std::optional<NvmlTable::Device> find(const CardName& card) const;
  NvmlTable table_;
};

}  // namespace plimsoll::kernels
