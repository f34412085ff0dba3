#include "batch/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

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

// ---- tables ----

namespace {

constexpr int kLineBits = 40;
constexpr int kFirstBits = 8;

uint64_t line_of(uint64_t low_line) {
  return low_line & ((uint64_t{1} << kLineBits) - 1);
}

}  // namespace

DigestTable::DigestTable(std::string folder, size_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes), slots_(folder_, most_bytes_) {}

uint64_t DigestTable::insert(const Digest& value, uint64_t line) {
  const uint64_t before = find(value);
  return before != 0 ? before : replace(value, line);
}

uint64_t DigestTable::replace(const Digest& value, uint64_t line) {
  if (bits_ == 0 || 4 * (size_ + 1) > 3 * (uint64_t{1} << bits_)) grow();
  const Slot wanted = slot_of(value, line);
  const Place place = place_of(wanted);
  slots_.set(place.index, wanted);
  const uint64_t before = line_of(place.slot.low_line);
  if (before == 0) ++size_;
  return before;
}

uint64_t DigestTable::find(const Digest& value) const {
  return bits_ == 0 ? 0 : line_of(place_of(slot_of(value, 0)).slot.low_line);
}

DigestTable::Slot DigestTable::slot_of(const Digest& value, uint64_t line) {
  return {value.high, value.low >> kLineBits << kLineBits | line};
}

// The slot that has the wanted one's digest, or the empty one where it would go. Places do not wrap
// around: the table may reach a little beyond 2^bits_ slots.
DigestTable::Place DigestTable::place_of(const Slot& wanted) const {
  for (uint64_t index = wanted.high >> (64 - bits_);; ++index) {
    const Slot slot = slots_[index];
    const bool is_same =
        slot.high == wanted.high && slot.low_line >> kLineBits == wanted.low_line >> kLineBits;
    if (line_of(slot.low_line) == 0 || is_same) return {index, slot};
  }
}

// Slots are nearly sorted by digest: the old table is read and the new one written once, from front
// to back, for which little memory is enough.
void DigestTable::grow() {
  const size_t both = 3 * (sizeof(Slot) << bits_);  // of the table and of one twice as long
  const size_t room = both <= most_bytes_ ? most_bytes_ : std::min(most_bytes_, Slots::kInOrder);
  const Slots old = std::exchange(slots_, Slots(folder_, room));
  bits_ = bits_ == 0 ? kFirstBits : bits_ + 1;
  for (uint64_t i = 0; i < old.size(); ++i) {
    const Slot slot = old[i];
    if (line_of(slot.low_line) != 0) slots_.set(place_of(slot).index, slot);
  }
  slots_.allow(most_bytes_);
}

}  // namespace plimsoll::batch
