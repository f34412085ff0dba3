// The whole program on emulated devices: EMULATED_DEVICES of them, which cannot read each other's
// memory where EMULATED_PEERS is 0.
#include <cstdlib>
#include <string_view>

#include "emulation/card.h"
#include "emulation/streams.h"

int plimsoll_main(int argc, char** argv);

int main(int argc, char** argv) {
  using namespace plimsoll;
  const char* devices = std::getenv("EMULATED_DEVICES");
  const char* peers = std::getenv("EMULATED_PEERS");
  emulation::card = emulation::kHopper;
  emulation::card.devices = devices != nullptr ? std::atoi(devices) : 1;
  emulation::card.peers = peers == nullptr || std::string_view(peers) != "0";
  emulation::set_streams(emulation::Streams::by_themselves);
  return plimsoll_main(argc, argv);
}
