#include "engine/cache/hash.h"

#include <bit>
#include <cstring>

namespace plimsoll::engine {

namespace {

struct State {
  uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }

  void absorb(uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }

  uint64_t squeeze() {
    rounds(4);
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

// Little-endian whatever the machine.
uint64_t load_word(const std::byte* from, size_t bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes; ++i) word |= std::to_integer<uint64_t>(from[i]) << (8 * i);
  return word;
}

}  // namespace

Hash128 siphash128(Hash128 key, std::span<const std::byte> bytes) {
  State state{0x736f6d6570736575 ^ key.low, 0x646f72616e646f6d ^ key.high ^ 0xee,
              0x6c7967656e657261 ^ key.low, 0x7465646279746573 ^ key.high};
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state.absorb(load_word(bytes.data() + at, 8));
  state.absorb(load_word(bytes.data() + at, bytes.size() - at) | uint64_t{bytes.size()} << 56);
  state.v2 ^= 0xee;
  Hash128 hash;
  hash.low = state.squeeze();
  state.v1 ^= 0xdd;
  hash.high = state.squeeze();
  return hash;
}

}  // namespace plimsoll::engine
