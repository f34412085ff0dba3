// The whole program on emulated devices: EMULATED_DEVICES of them, which cannot read each other's
// memory where EMULATED_PEERS is 0. With EMULATED_DRIVER (12040 is CUDA 12.4) the driver is of that
// version, and shows none where it is older than the runtime.
#include <cstdlib>
#include <string_view>

#include "cuda_runtime.h"
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
  if (const char* driver = std::getenv("EMULATED_DRIVER")) {
    emulation::card.driver = std::atoi(driver);
    if (emulation::card.driver < emulation::card.runtime)
      emulation::card.devices_status = cudaErrorInsufficientDriver;
  }
  emulation::set_streams(emulation::Streams::by_themselves);
  return plimsoll_main(argc, argv);
}
