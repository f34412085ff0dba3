#include "batch/digest.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace plimsoll::batch {
namespace {

constexpr uint64_t kFirst = 0x87c37b91114253d5u;
constexpr uint64_t kSecond = 0x4cf5ad432745937fu;

uint64_t finalise(uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdu;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53u;
  k ^= k >> 33;
  return k;
}

// Little-endian, whatever the machine; missing bytes are zero.
uint64_t load(const char* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
  }
  return value;
}

uint64_t mix_first(uint64_t k) {
  return std::rotl(k * kFirst, 31) * kSecond;
}
uint64_t mix_second(uint64_t k) {
  return std::rotl(k * kSecond, 33) * kFirst;
}

}  // namespace

Digest digest(std::string_view bytes, uint64_t seed) {
  uint64_t h1 = seed;
  uint64_t h2 = seed;
  size_t at = 0;
  for (; at + 16 <= bytes.size(); at += 16) {
    h1 = (std::rotl(h1 ^ mix_first(load(&bytes[at], 8)), 27) + h2) * 5 + 0x52dce729;
    h2 = (std::rotl(h2 ^ mix_second(load(&bytes[at + 8], 8)), 31) + h1) * 5 + 0x38495ab5;
  }
  const size_t rest = bytes.size() - at;
  if (rest > 8) h2 ^= mix_second(load(bytes.data() + at + 8, rest - 8));
  if (rest > 0) h1 ^= mix_first(load(bytes.data() + at, rest < 8 ? rest : 8));
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = finalise(h1);
  h2 = finalise(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

std::string hex(const Digest& value) {
  return fmt::format("{:016x}{:016x}", value.high, value.low);
}

uint64_t DigestTable::insert(const Digest& value, uint64_t line) {
  if (4 * (size_ + 1) > 3 * slots_.size()) grow();
  Slot& slot = slots_[place_of(value)];
  if (slot.line != 0) return slot.line;
  slot = {value, line};
  ++size_;
  return 0;
}

uint64_t DigestTable::find(const Digest& value) const {
  return slots_.empty() ? 0 : slots_[place_of(value)].line;
}

// The digest's slot, or the empty one where it would go.
size_t DigestTable::place_of(const Digest& value) const {
  size_t at = value.low & (slots_.size() - 1);
  while (slots_[at].line != 0 && slots_[at].value != value) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void DigestTable::grow() {
  std::vector<Slot> old(slots_.empty() ? 1024 : 2 * slots_.size());
  old.swap(slots_);
  for (const Slot& entry : old) {
    if (entry.line != 0) slots_[place_of(entry.value)] = entry;
  }
}

}  // namespace plimsoll::batch
