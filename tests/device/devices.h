// Devices for ranks: of tests of the whole backend.
#pragma once

#include "backend/device.h"
#include "conformance/rank_parts.h"
#include "device/on_device.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/card.h"
#endif

namespace plimsoll::testing {

/// As many devices as a test has ranks, where they are emulated.
class Devices {
 public:
  explicit Devices([[maybe_unused]] int64_t count) {
#ifdef PLIMSOLL_EMULATION
    emulation::card = emulation::kHopper;
    emulation::card.devices = static_cast<int>(count);
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
      return backend::make_device_backend(
          {.index = static_cast<int>(rank) % count, .threads = 1, .deterministic = deterministic});
    };
  }

 private:
  int count_ = 0;
};

}  // namespace plimsoll::testing
