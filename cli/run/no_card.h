// Messages that say why a run cannot have a card.
#pragma once

#include <string>

#include "backend/device.h"

namespace plimsoll::cli {

/// Facts about a machine where no device can be used.
struct CardTrouble {
  bool has_backend = backend::kHasDeviceBackend;
  backend::DriverState driver;
  int pci_cards = 0;  // in the machine
};
CardTrouble find_card_trouble();

/// The reason in words, with the cure; empty on a machine without a card.
std::string why_no_card(const CardTrouble& trouble);

/// CUDA's version as text: "12.4" for 12040.
std::string cuda_version(int version);

}  // namespace plimsoll::cli
