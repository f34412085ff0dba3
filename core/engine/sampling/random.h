// Random numbers that depend on the choice and position, never on time: one stream per choice of a
// line.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::engine {

/// Philox4x32-10 (Salmon et al. 2011): four random words for a counter under a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Random numbers of one choice. The Philox key is the low half of siphash128 over
///   0x00, run seed (8 bytes, little-endian), the line's key    for a line without its own seed
///   0x01, the line's seed (8 bytes, little-endian)             for a line with one
/// under the zero key; the counter is (position low, position high, choice low, choice high), where
/// position counts the choice's own tokens from 0.
class TokenRandom {
 public:
  TokenRandom(uint64_t run_seed, std::string_view line_key, std::optional<int64_t> line_seed,
              int64_t choice);

  /// Uniform in [0, 1), a multiple of 2^-53.
  [[nodiscard]] double uniform(int64_t position) const;

 private:
  std::array<uint32_t, 2> key_;
  uint64_t choice_;
};

}  // namespace plimsoll::engine
