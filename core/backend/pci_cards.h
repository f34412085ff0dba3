// Cards that are in the machine, whether a driver shows them or not.
#pragma once

#include <filesystem>

namespace plimsoll::backend {

/// NVIDIA's display and compute cards on the PCI bus, as Linux lists them in `devices`; 0 where it
/// lists nothing.
int count_pci_cards(const std::filesystem::path& devices = "/sys/bus/pci/devices");

}  // namespace plimsoll::backend
