// The merges of byte pair encoding, for look-up by pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace plimsoll::text {

/// (left id, right id) -> rank and the merged id. Open addressing, at most two thirds full.
class MergeTable {
 public:
  struct Entry {
    TokenId left = -1;
    TokenId right = -1;
    uint32_t rank = 0;
    TokenId merged = -1;
  };

  void reserve(size_t merges) {
    size_t slots = 16;
    while (slots < merges + merges / 2 + 1) slots *= 2;
    slots_.assign(slots, {});
  }
  // The later of two equal merges counts, as in the reference.
  void put(Entry entry) { slots_[slot_of(entry.left, entry.right)] = entry; }
  [[nodiscard]] const Entry* find(TokenId left, TokenId right) const {
    const Entry& entry = slots_[slot_of(left, right)];
    return entry.left < 0 ? nullptr : &entry;
  }

 private:
  [[nodiscard]] size_t slot_of(TokenId left, TokenId right) const {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    const size_t mask = slots_.size() - 1;
    size_t at = ((key * 0x9E3779B97F4A7C15u) >> 20) & mask;
    while (slots_[at].left >= 0 && (slots_[at].left != left || slots_[at].right != right))
      at = (at + 1) & mask;
    return at;
  }
  std::vector<Entry> slots_;
};

}  // namespace plimsoll::text
