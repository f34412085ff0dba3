// Ids of frequent words, per thread and of fixed size: no locks, no growth, nothing to free with a
// tokenizer.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "text/tokenizer.h"

namespace plimsoll::text {

class WordCache {
 public:
  static constexpr size_t kMaxWord = 32;  // bytes
  static constexpr size_t kMaxIds = 7;

  /// The calling thread's cache.
  static WordCache& of_thread() {
    thread_local WordCache cache;
    return cache;
  }

  /// The ids of a word in the cache; empty: it is not there. `owner` is the tokenizer's number,
  /// never 0.
  [[nodiscard]] const std::span<const TokenId> find(uint64_t owner, std::string_view word,
                                                    uint64_t hash) const {
    if (word.size() > kMaxWord) return {};
    const Slot& slot = slots_[hash % kSlots];
    if (slot.owner != owner || slot.length != word.size() ||
        std::memcmp(slot.word.data(), word.data(), word.size()) != 0) {
      return {};
    }
    return {slot.ids.data(), slot.count};
  }

  void store(uint64_t owner, std::string_view word, uint64_t hash, std::span<const TokenId> ids) {
    if (word.size() > kMaxWord || ids.empty() || ids.size() > kMaxIds) return;
    Slot& slot = slots_[hash % kSlots];
    slot.owner = owner;
    slot.length = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(ids.size());
    std::memcpy(slot.word.data(), word.data(), word.size());
    std::memcpy(slot.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr size_t kSlots = 8192;
  struct Slot {
    uint64_t owner = 0;
    std::array<char, kMaxWord> word;
    std::array<TokenId, kMaxIds> ids;
    uint8_t length = 0;
    uint8_t count = 0;
  };
  std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(kSlots);
};

}  // namespace plimsoll::text
