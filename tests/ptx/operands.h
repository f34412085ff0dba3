// Reading and writing the registers of an instruction's operands.
#pragma once

#include <cstring>
#include <string>
#include <utility>

#include "ptx/state.h"

namespace plimsoll::ptx {

template <typename T>
T get(const Context& c, const Instruction& i, size_t operand, unsigned lane) {
  T value;
  const auto slot = static_cast<size_t>(i.operands[operand].slot);
  if constexpr (sizeof(T) == 8) {
    std::memcpy(&value, &c.wides[slot].lane[lane], sizeof value);
  } else {
    std::memcpy(&value, &c.words[slot].lane[lane], sizeof value);
  }
  return value;
}

/// Narrow values are extended with zeros.
template <typename T>
void put(Context& c, const Instruction& i, size_t operand, unsigned lane, T value) {
  const auto slot = static_cast<size_t>(i.operands[operand].slot);
  if constexpr (sizeof(T) == 8) {
    std::memcpy(&c.wides[slot].lane[lane], &value, sizeof value);
  } else {
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    c.words[slot].lane[lane] = word;
  }
}

/// A value of whichever width the register has.
inline uint64_t get_bits(const Context& c, const Instruction& i, size_t operand, unsigned lane) {
  return i.operands[operand].kind == Kind::wide ? get<uint64_t>(c, i, operand, lane)
                                                : get<uint32_t>(c, i, operand, lane);
}
inline void put_bits(Context& c, const Instruction& i, size_t operand, unsigned lane,
                     uint64_t value) {
  if (i.operands[operand].kind == Kind::wide) {
    put(c, i, operand, lane, value);
  } else if (i.operands[operand].kind == Kind::word) {
    put(c, i, operand, lane, static_cast<uint32_t>(value));
  }
}

inline Mask get_predicate(const Context& c, const Operand& operand) {
  const Mask value = c.predicates[operand.slot];
  return operand.kind == Kind::negated ? ~value : value;
}
inline void put_predicate(Context& c, const Operand& operand, Mask value, Mask lanes) {
  if (!operand.is_there()) return;
  Mask& predicate = c.predicates[operand.slot];
  predicate = (predicate & ~lanes) | (value & lanes);
}

template <typename F>
void for_lanes(Mask lanes, F each) {
  if (lanes == kAllLanes) {
    for (unsigned lane = 0; lane < kLanes; ++lane) each(lane);
    return;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1u) != 0) each(lane);
  }
}

/// Host's address of an access of `bytes` to memory of `space`; a fault where it is misaligned or
/// outside.
std::byte* place(Context& c, const Instruction& i, Space space, uint64_t address, size_t bytes);
/// Tells the detector of races of an access to shared memory, which may be a fault. `same`: what is
/// written is there already.
void note_read(Context& c, const Instruction& i, const std::byte* at, size_t bytes);
void note_write(Context& c, const Instruction& i, const std::byte* at, size_t bytes, Write how);

}  // namespace plimsoll::ptx
