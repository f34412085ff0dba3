// The table of tokens: text to id and back, compact and quick to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace plimsoll::text {

/// Upper bound of ids: four times the largest vocabulary in use, and small enough for a table by
/// id.
inline constexpr TokenId kMaxTokens = 1 << 22;

uint64_t hash_bytes(std::string_view bytes);

class Vocabulary {
 public:
  /// Treatment in add() of the id that a text had before: in a list of pieces it still spells the
  /// text, in an object the text counts once.
  enum class OldId : uint8_t { kept, forgotten };
  /// Adds a token; 0 <= id < kMaxTokens. The last id of a repeated text counts, as in the
  /// reference. The first of several tokens with one id is the id's spelling.
  void add(std::string_view token, TokenId id, OldId old = OldId::forgotten);
  void reserve(size_t tokens, size_t bytes);

  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const {
    return find(token, hash_bytes(token));
  }
  [[nodiscard]] std::optional<TokenId> find(std::string_view token, uint64_t hash) const;
  /// The spelling of an id; empty when there is no such id.
  [[nodiscard]] std::string_view token(TokenId id) const;
  [[nodiscard]] bool contains(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < by_id_.size() &&
           by_id_[static_cast<size_t>(id)] != kNone;
  }
  /// One more than the largest id.
  [[nodiscard]] TokenId end_id() const { return static_cast<TokenId>(by_id_.size()); }
  /// Number of tokens; a text that kept its old id counts twice.
  [[nodiscard]] size_t size() const { return entries_.size() + repeats_; }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Entry& entry : entries_) visit(text(entry), entry.id);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint64_t offset;
    uint32_t length;
    TokenId id;
  };
  struct Slot {
    uint32_t entry = kNone;
    uint32_t hash = 0;
  };

  [[nodiscard]] std::string_view text(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.offset, entry.length);
  }
  void spell(TokenId id, uint32_t entry);
  [[nodiscard]] size_t slot_of(std::string_view token, uint64_t hash) const;
  void grow(size_t slots);

  std::string bytes_;
  std::vector<Entry> entries_;
  size_t repeats_ = 0;
  std::vector<Slot> slots_;      // open addressing, a power of two, at most half full
  std::vector<uint32_t> by_id_;  // id -> entry
};

}  // namespace plimsoll::text
