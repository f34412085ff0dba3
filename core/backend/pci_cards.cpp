#include "backend/pci_cards.h"

#include <fstream>
#include <string>
#include <system_error>

namespace plimsoll::backend {
namespace {

namespace fs = std::filesystem;

/// The hexadecimal number that a file of a device holds ("0x10de"); 0: none.
unsigned long number_in(const fs::path& file) {
  std::ifstream in(file);
  unsigned long value = 0;
  in >> std::hex >> value;
  return in ? value : 0;
}

}  // namespace

int count_pci_cards(const fs::path& devices) {
  constexpr unsigned long kNvidia = 0x10de;
  constexpr unsigned long kDisplay = 0x03;  // class: VGA and 3D controllers
  int count = 0;
  std::error_code none;
  for (const fs::directory_entry& device : fs::directory_iterator(devices, none)) {
    if (number_in(device.path() / "vendor") != kNvidia) continue;
    if (number_in(device.path() / "class") >> 16 == kDisplay) ++count;
  }
  return count;
}

}  // namespace plimsoll::backend
