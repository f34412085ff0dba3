// Integer arithmetic.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "ptx/arithmetic.h"

namespace plimsoll::ptx {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// Sums and products wrap.
template <typename T>
T add(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}
template <typename T>
T subtract(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
}
template <typename T>
T multiply(T a, T b) {
  return static_cast<T>(uint64_t{static_cast<Unsigned<T>>(a)} * static_cast<Unsigned<T>>(b));
}
template <typename T>
T multiply_add(T a, T b, T c) {
  return add(multiply(a, b), c);
}
template <typename T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return subtract(T{0}, a);
  }
  return static_cast<T>(a / b);
}
template <typename T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <typename T>
T smaller(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
T larger(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
T negate(T a) {
  return subtract(T{0}, a);
}
template <typename T>
T absolute(T a) {
  return a < 0 ? negate(a) : a;
}
template <typename W, typename T>
W multiply_wide(T a, T b) {
  return static_cast<W>(W{a} * W{b});
}
template <typename W, typename T>
W multiply_add_wide(T a, T b, W c) {
  return add(multiply_wide<W>(a, b), c);
}
template <typename W, typename T>
T multiply_high(T a, T b) {
  return static_cast<T>((W{a} * W{b}) >> (8 * sizeof(T)));
}
template <typename T>
T shift_left(T a, uint32_t by) {
  return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by);
}
/// Of a signed number the sign comes after.
template <typename T>
T shift_right(T a, uint32_t by) {
  return static_cast<T>(a >> std::min<uint32_t>(by, 8 * sizeof(T) - 1) >>
                        (by >= 8 * sizeof(T) ? 1 : 0));
}
template <typename T>
uint32_t count_ones(T a) {
  return static_cast<uint32_t>(std::popcount(a));
}
template <typename T>
uint32_t leading_zeros(T a) {
  return static_cast<uint32_t>(std::countl_zero(a));
}
uint32_t reverse_bits(uint32_t a) {
  uint32_t result = 0;
  for (unsigned bit = 0; bit < 32; ++bit) result |= (a >> bit & 1u) << (31 - bit);
  return result;
}
uint32_t highest_bit(uint32_t a) {
  return a == 0 ? 0xffffffffu : 31 - leading_zeros(a);
}

/// Puts `count` low bits of `a` into `b` from bit `position` on.
template <typename T>
T insert_bits(T a, T b, uint32_t position, uint32_t count) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  position &= 0xff;
  count &= 0xff;
  if (count == 0 || position >= kBits) return b;
  const T ones = count >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << count) - 1);
  const T mask = static_cast<T>(ones << position);
  return static_cast<T>((b & ~mask) | (static_cast<T>(a << position) & mask));
}
/// `count` bits of `a` from bit `position` on.
uint32_t extract_bits(uint32_t a, uint32_t position, uint32_t count) {
  position &= 0xff;
  count &= 0xff;
  if (position >= 32 || count == 0) return 0;
  const uint32_t rest = a >> position;
  return count >= 32 ? rest : rest & ((1u << count) - 1);
}

/// Four of the eight bytes of `a` and `b`, each named by four bits, of which the highest asks for
/// the byte's sign in all of its bits.
uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t which = selector >> 4 * i & 15;
    const auto byte = static_cast<uint32_t>(bytes >> 8 * (which & 7) & 0xff);
    result |= (which < 8 ? byte : (byte & 0x80) != 0 ? 0xffu : 0u) << 8 * i;
  }
  return result;
}
uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (by & 31) >> 32);
}
uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (by & 31));
}

template <typename T>
void add_type(Rows& rows, const std::string& type) {
  add_row<add<T>>(rows, "add." + type);
  add_row<subtract<T>>(rows, "sub." + type);
  add_row<multiply<T>>(rows, "mul." + type);
  add_row<multiply_add<T>>(rows, "mad." + type);
  add_row<divide<T>>(rows, "div." + type);
  add_row<remainder<T>>(rows, "rem." + type);
  add_row<smaller<T>>(rows, "min." + type);
  add_row<larger<T>>(rows, "max." + type);
  add_row<shift_right<T>>(rows, "shr." + type);
  if constexpr (std::is_signed_v<T>) {
    add_row<negate<T>>(rows, "neg." + type);
    add_row<absolute<T>>(rows, "abs." + type);
  } else {
    const std::string bits = "b" + type.substr(1);
    add_row<shift_left<T>>(rows, "shl." + bits);
    add_row<shift_right<T>>(rows, "shr." + bits);
  }
}

}  // namespace

void add_integers(Rows& rows) {
  add_type<int16_t>(rows, "s16");
  add_type<uint16_t>(rows, "u16");
  add_type<int32_t>(rows, "s32");
  add_type<uint32_t>(rows, "u32");
  add_type<int64_t>(rows, "s64");
  add_type<uint64_t>(rows, "u64");
  add_row<multiply_wide<int64_t, int32_t>>(rows, "mul.wide.s32");
  add_row<multiply_wide<uint64_t, uint32_t>>(rows, "mul.wide.u32");
  add_row<multiply_wide<int32_t, int16_t>>(rows, "mul.wide.s16");
  add_row<multiply_wide<uint32_t, uint16_t>>(rows, "mul.wide.u16");
  add_row<multiply_add_wide<int64_t, int32_t>>(rows, "mad.wide.s32");
  add_row<multiply_add_wide<uint64_t, uint32_t>>(rows, "mad.wide.u32");
  add_row<multiply_high<int64_t, int32_t>>(rows, "mul.hi.s32");
  add_row<multiply_high<uint64_t, uint32_t>>(rows, "mul.hi.u32");
  add_row<insert_bits<uint32_t>>(rows, "bfi.b32");
  add_row<insert_bits<uint64_t>>(rows, "bfi.b64");
  add_row<extract_bits>(rows, "bfe.u32");
  add_row<permute_bytes>(rows, "prmt.b32");
  add_row<funnel_left>(rows, "shf.l.wrap.b32");
  add_row<funnel_right>(rows, "shf.r.wrap.b32");
  add_row<count_ones<uint32_t>>(rows, "popc.b32");
  add_row<count_ones<uint64_t>>(rows, "popc.b64");
  add_row<leading_zeros<uint32_t>>(rows, "clz.b32");
  add_row<reverse_bits>(rows, "brev.b32");
  add_row<highest_bit>(rows, "bfind.u32");
}

}  // namespace plimsoll::ptx
