// The driver's own figure of a card's memory, which needs no context: NVML, where it is installed.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll::kernels {

/// Bytes in use on the card with this PCI address ("0000:3B:00.0"), by all processes together;
/// nothing where NVML or its answer is missing.
std::optional<uint64_t> used_bytes(const char* pci_address);

}  // namespace plimsoll::kernels
