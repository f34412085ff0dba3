// 128-bit digests of text: identities of lines and ids, equal on every machine; tables of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "files/paged_array.h"

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

/// Which line a digest was first seen on: a hash table of 16 bytes a slot, at most 3/4 full, as
/// much of it in memory as the bound says. It knows 88 bits of each digest, and lines below 2^40.
class DigestTable {
 public:
  /// Six million digests lie in memory.
  static constexpr size_t kInMemory = size_t{128} << 20;

  /// `folder`: see files::PagedBytes.
  explicit DigestTable(std::string folder = {}, size_t most_bytes = kInMemory);

  /// Notes the digest with its line (1-based). Returns the line that it was seen on before, or 0.
  uint64_t insert(const Digest& value, uint64_t line);
  /// Notes the digest with another line than before. Returns the line before, or 0.
  uint64_t replace(const Digest& value, uint64_t line);
  /// The line that the digest was seen on, or 0.
  [[nodiscard]] uint64_t find(const Digest& value) const;
  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] bool is_on_disk() const { return slots_.is_on_disk(); }

 private:
  struct Slot {
    uint64_t high = 0;      // of the digest
    uint64_t low_line = 0;  // the upper 24 bits of the digest's low half, and the line; 0: empty
  };
  using Slots = files::PagedArray<Slot>;
  struct Place {
    uint64_t index = 0;
    Slot slot;  // what is there
  };
  static Slot slot_of(const Digest& value, uint64_t line);
  void grow();
  [[nodiscard]] Place place_of(const Slot& wanted) const;

  std::string folder_;
  size_t most_bytes_;
  Slots slots_;
  int bits_ = 0;  // a slot's first place is the upper bits of its digest; 0: there are no slots
  uint64_t size_ = 0;
};

}  // namespace plimsoll::batch
