// SipHash-2-4 with 128-bit result (Aumasson, Bernstein 2012): block keys and random streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::engine {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
};

/// The keyed 128-bit hash of `bytes`; equal on every machine.
Hash128 siphash128(Hash128 key, std::span<const std::byte> bytes);

}  // namespace plimsoll::engine
