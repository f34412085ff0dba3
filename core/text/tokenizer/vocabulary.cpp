#include "text/tokenizer/vocabulary.h"

#include <cstring>

namespace plimsoll::text {
namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t load(const char* bytes, size_t count) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, count);
  return value;
}

}  // namespace

// After wyhash (Wang Yi, public domain): two words at a time through a 128-bit product.
uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kFirst = 0xA0761D6478BD642F;
  constexpr uint64_t kSecond = 0xE7037ED1A0B428DB;
  const char* at = bytes.data();
  size_t left = bytes.size();
  uint64_t state = kFirst ^ bytes.size();
  for (; left > 16; left -= 16, at += 16)
    state = mix(load(at, 8) ^ kSecond, load(at + 8, 8) ^ state);
  const uint64_t low = left > 8 ? load(at, 8) : load(at, left);
  const uint64_t high = left > 8 ? load(at + 8, left - 8) : 0;
  return mix(kSecond ^ bytes.size(), mix(low ^ kSecond, high ^ state));
}

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  entries_.reserve(tokens);
  by_id_.reserve(tokens);
  bytes_.reserve(bytes);
  size_t slots = 64;
  while (slots < tokens * 2) slots *= 2;
  if (slots > slots_.size()) grow(slots);
}

void Vocabulary::add(std::string_view token, TokenId id, OldId old) {
  if (entries_.size() * 2 >= slots_.size()) grow(slots_.empty() ? 64 : slots_.size() * 2);
  const uint64_t hash = hash_bytes(token);
  Slot& slot = slots_[slot_of(token, hash)];
  if (slot.entry != kNone) {
    Entry& known = entries_[slot.entry];
    uint32_t& spelling = by_id_[static_cast<size_t>(known.id)];
    if (old == OldId::kept)
      ++repeats_;
    else if (spelling == slot.entry)
      spelling = kNone;
    known.id = id;
    spell(id, slot.entry);
    return;
  }
  const auto entry = static_cast<uint32_t>(entries_.size());
  slot = {entry, static_cast<uint32_t>(hash >> 32)};
  entries_.push_back({bytes_.size(), static_cast<uint32_t>(token.size()), id});
  bytes_ += token;
  spell(id, entry);
}

void Vocabulary::spell(TokenId id, uint32_t entry) {
  const auto index = static_cast<size_t>(id);
  if (index >= by_id_.size()) by_id_.resize(index + 1, kNone);
  if (by_id_[index] == kNone) by_id_[index] = entry;
}

size_t Vocabulary::slot_of(std::string_view token, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  while (slots_[at].entry != kNone &&
         (slots_[at].hash != tag || text(entries_[slots_[at].entry]) != token)) {
    at = (at + 1) & mask;
  }
  return at;
}

std::optional<TokenId> Vocabulary::find(std::string_view token, uint64_t hash) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(token, hash)];
  if (slot.entry == kNone) return std::nullopt;
  return entries_[slot.entry].id;
}

std::string_view Vocabulary::token(TokenId id) const {
  return contains(id) ? text(entries_[by_id_[static_cast<size_t>(id)]]) : std::string_view();
}

void Vocabulary::grow(size_t slots) {
  slots_.assign(slots, {});
  const size_t mask = slots - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const uint64_t hash = hash_bytes(text(entries_[i]));
    size_t at = hash & mask;
    while (slots_[at].entry != kNone) at = (at + 1) & mask;
    slots_[at] = {static_cast<uint32_t>(i), static_cast<uint32_t>(hash >> 32)};
  }
}

}  // namespace plimsoll::text
