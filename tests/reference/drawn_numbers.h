// The generator of all recipes: splitmix64 of (FNV-1a of a tensor's name xor the recipe's seed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace plimsoll::testing {

class DrawnNumbers {
 public:
  DrawnNumbers(const std::string& name, uint64_t seed) : start_(fnv1a64(name) ^ seed) {}

  /// Number i, from 0.
  uint64_t operator()(uint64_t i) const { return mix(start_ + (i + 1) * 0x9E3779B97F4A7C15u); }
  /// Number i as a float of mean +- amplitude.
  [[nodiscard]] float value(uint64_t i, double mean, double amplitude) const {
    const uint64_t bits = (*this)(i) >> 40;
    return static_cast<float>(mean +
                              amplitude * ((static_cast<double>(bits) + 0.5) / 8388608.0 - 1));
  }

 private:
  static uint64_t fnv1a64(const std::string& text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
    return hash;
  }
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  uint64_t start_;
};

}  // namespace plimsoll::testing
