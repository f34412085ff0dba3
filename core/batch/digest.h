// 128-bit digests of text: identities of lines and ids, equal on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::batch {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Digest&) const = default;
};

/// MurmurHash3 x64 128 (Appleby, public domain) with both halves seeded. Not cryptographic.
Digest digest(std::string_view bytes, uint64_t seed = 0);
/// 32 hexadecimal digits.
std::string hex(const Digest& value);

/// Which line a digest was first seen on, in one flat table: 24 bytes a slot, at most 3/4 full.
class DigestTable {
 public:
  /// Notes the digest with its line (1-based). Returns the line that it was seen on before, or 0.
  uint64_t insert(const Digest& value, uint64_t line);
  /// The line that the digest was seen on, or 0.
  [[nodiscard]] uint64_t find(const Digest& value) const;
  [[nodiscard]] size_t size() const { return size_; }

 private:
  struct Slot {
    Digest value;
    uint64_t line = 0;  // 0: empty
  };
  void grow();
  [[nodiscard]] size_t place_of(const Digest& value) const;

  std::vector<Slot> slots_;  // a power of two of them
  size_t size_ = 0;
};

}  // namespace plimsoll::batch
