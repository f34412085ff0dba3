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
  const uint64_t before = place({value, line});
  if (before == 0) ++size_;
  return before;
}

uint64_t DigestTable::place(const Slot& entry) {
  size_t at = entry.value.low & (slots_.size() - 1);
  while (slots_[at].line != 0) {
    if (slots_[at].value == entry.value) return slots_[at].line;
    at = (at + 1) & (slots_.size() - 1);
  }
  slots_[at] = entry;
  return 0;
}

void DigestTable::grow() {
  std::vector<Slot> old(slots_.empty() ? 1024 : 2 * slots_.size());
  old.swap(slots_);
  for (const Slot& entry : old) {
    if (entry.line != 0) place(entry);
  }
}

}  // namespace plimsoll::batch
