// Devices of ranks, for tests of the whole backend.
#pragma once

#include "backend/device.h"
#include "conformance/rank_parts.h"
#include "device/on_device.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/card.h"
#endif

namespace plimsoll::testing {

/// How ranks on devices communicate. The emulator has a stand-in for NCCL.
enum class Talk : uint8_t { over_peers, over_nccl };

#ifdef PLIMSOLL_EMULATION
inline constexpr const char* kNccl = PLIMSOLL_BINARY_DIR "/tests/emulation/fake_nccl.so";
#else
inline constexpr const char* kNccl = "";
#endif

/// Holds as many devices as a test has ranks, where they are emulated.
class Devices {
 public:
  explicit Devices([[maybe_unused]] int64_t count, [[maybe_unused]] Talk talk = Talk::over_peers) {
#ifdef PLIMSOLL_EMULATION
    emulation::card = emulation::kHopper;
    emulation::card.devices = static_cast<int>(count);
    emulation::card.peers = talk == Talk::over_peers;
#endif
    if (has_device()) count_ = static_cast<int>(backend::list_devices().size());
  }
#ifdef PLIMSOLL_EMULATION
  ~Devices() {
    emulation::card = {};
  }
#endif
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  [[nodiscard]] bool none() const {
    return count_ == 0;
  }
  [[nodiscard]] MakeBackend backends(bool deterministic = false) const {
    return [count = count_, deterministic](size_t rank, size_t) {
      return backend::make_device_backend({.index = static_cast<int>(rank) % count,
                                           .threads = 1,
                                           .deterministic = deterministic,
                                           .nccl = kNccl});
    };
  }

 private:
  int count_ = 0;
};

}  // namespace plimsoll::testing
