#include "cli/run/no_card.h"

#include <fmt/format.h>

#include "backend/pci_cards.h"

namespace plimsoll::cli {

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

CardTrouble find_card_trouble() {
  return {.driver = backend::driver_state(), .pci_cards = backend::count_pci_cards()};
}

std::string why_no_card(const CardTrouble& trouble) {
  const backend::DriverState& state = trouble.driver;
  if (!trouble.has_backend) {
    return trouble.pci_cards == 0 ? ""
                                  : "this machine has an NVIDIA card, but this build has no CUDA "
                                    "backend (build it where nvcc is)";
  }
  if (state.driver == 0) {
    return trouble.pci_cards == 0 ? ""
                                  : "this machine has an NVIDIA card, but no driver is to be found "
                                    "(install it; in a container, pass the card in)";
  }
  const std::string versions = fmt::format("the driver runs CUDA up to {}, this build is for {}",
                                           cuda_version(state.driver), cuda_version(state.runtime));
  if (state.devices > 0) {
    return fmt::format("of the driver's {} devices none has compute capability 8.0 or later",
                       state.devices);
  }
  if (state.driver < state.runtime && !state.trouble.empty()) {
    return versions + ": update the driver, or build with an older toolkit";
  }
  if (!state.trouble.empty()) return fmt::format("{}; {}", state.trouble, versions);
  if (trouble.pci_cards > 0) {
    return "the driver shows this process no device (CUDA_VISIBLE_DEVICES, or the container's "
           "devices)";
  }
  return "";
}

}  // namespace plimsoll::cli
