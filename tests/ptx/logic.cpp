// Logic of bits and predicates, choices and comparisons.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ptx/arithmetic.h"

namespace plimsoll::ptx {
namespace {

template <typename T>
T both(T a, T b) {
  return a & b;
}
template <typename T>
T either(T a, T b) {
  return a | b;
}
template <typename T>
T differ(T a, T b) {
  return a ^ b;
}
template <typename T>
T invert(T a) {
  return static_cast<T>(~a);
}
template <typename T>
T same(T a) {
  return a;
}
/// Any function of three bits, by its table of eight.
uint32_t look_up(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t row = 0; row < 8; ++row) {
    if ((table >> row & 1u) == 0) continue;
    result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  }
  return result;
}

template <Mask (*F)(Mask, Mask)>
void join_predicates(Context& c, const Instruction& i, Mask lanes) {
  const Mask value = F(get_predicate(c, i.operands[1]), get_predicate(c, i.operands[2]));
  put_predicate(c, i.operands[0], value, lanes);
}
void invert_predicate(Context& c, const Instruction& i, Mask lanes) {
  put_predicate(c, i.operands[0], ~get_predicate(c, i.operands[1]), lanes);
}
/// Of a constant too.
void move_predicate(Context& c, const Instruction& i, Mask lanes) {
  Mask value = 0;
  if (i.operands[1].kind == Kind::word) {
    for (unsigned lane = 0; lane < kLanes; ++lane)
      value |= static_cast<Mask>(get<uint32_t>(c, i, 1, lane) != 0) << lane;
  } else {
    value = get_predicate(c, i.operands[1]);
  }
  put_predicate(c, i.operands[0], value, lanes);
}
template <typename T>
void select(Context& c, const Instruction& i, Mask lanes) {
  const Mask first = get_predicate(c, i.operands[3]);
  for_lanes(lanes, [&](unsigned lane) {
    put<T>(c, i, 0, lane,
           (first >> lane & 1u) != 0 ? get<T>(c, i, 1, lane) : get<T>(c, i, 2, lane));
  });
}

Mask joined(Join how, Mask value, Mask other) {
  switch (how) {
    case Join::none:
      return value;
    case Join::logical_and:
      return value & other;
    case Join::logical_or:
      return value | other;
    case Join::exclusive_or:
      return value ^ other;
  }
  return value;
}

/// Operands: result, its opposite, both numbers, the predicate that the results are joined with.
template <typename T, bool (*F)(T, T)>
void compare(Context& c, const Instruction& i, Mask lanes) {
  Mask value = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    value |= static_cast<Mask>(F(get<T>(c, i, 2, lane), get<T>(c, i, 3, lane))) << lane;
  const auto how = static_cast<Join>(i.option);
  const Mask other = how == Join::none ? 0 : get_predicate(c, i.operands[4]);
  const Mask opposite = joined(how, ~value, other);
  put_predicate(c, i.operands[0], joined(how, value, other), lanes);
  put_predicate(c, i.operands[1], opposite, lanes);
}
template <typename T>
bool is_unordered(T a, T b) {
  return std::isnan(a) || std::isnan(b);
}
template <typename T>
bool less(T a, T b) {
  return a < b;
}
template <typename T>
bool less_equal(T a, T b) {
  return a <= b;
}
template <typename T>
bool greater(T a, T b) {
  return b < a;
}
template <typename T>
bool greater_equal(T a, T b) {
  return b <= a;
}
template <typename T>
bool equal(T a, T b) {
  return a == b;
}
/// False where one is NaN.
template <typename T>
bool different(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || b < a;
  return a != b;
}
template <typename T, bool (*F)(T, T)>
bool opposite(T a, T b) {
  return !F(a, b);
}

template <typename T>
Function ordered(const std::string& name) {
  if (name == "eq") return compare<T, equal<T>>;
  if (name == "ne") return compare<T, different<T>>;
  if (name == "lt" || name == "lo") return compare<T, less<T>>;
  if (name == "le" || name == "ls") return compare<T, less_equal<T>>;
  if (name == "gt" || name == "hi") return compare<T, greater<T>>;
  if (name == "ge" || name == "hs") return compare<T, greater_equal<T>>;
  return nullptr;
}
/// Those that hold where one is NaN are opposites of others.
template <typename T>
Function floating(const std::string& name) {
  if (name == "ltu") return compare<T, opposite<T, greater_equal<T>>>;
  if (name == "leu") return compare<T, opposite<T, greater<T>>>;
  if (name == "gtu") return compare<T, opposite<T, less_equal<T>>>;
  if (name == "geu") return compare<T, opposite<T, less<T>>>;
  if (name == "equ") return compare<T, opposite<T, different<T>>>;
  if (name == "neu") return compare<T, opposite<T, equal<T>>>;
  if (name == "nan") return compare<T, is_unordered<T>>;
  if (name == "num") return compare<T, opposite<T, is_unordered<T>>>;
  return ordered<T>(name);
}

template <typename T>
void add_bits(Rows& rows, const std::string& type) {
  add_row<both<T>>(rows, "and." + type);
  add_row<either<T>>(rows, "or." + type);
  add_row<differ<T>>(rows, "xor." + type);
  add_row<invert<T>>(rows, "not." + type);
}

}  // namespace

Function find_comparison(const std::string& comparison, const std::string& type) {
  if (type == "s16") return ordered<int16_t>(comparison);
  if (type == "u16" || type == "b16") return ordered<uint16_t>(comparison);
  if (type == "s32") return ordered<int32_t>(comparison);
  if (type == "u32" || type == "b32") return ordered<uint32_t>(comparison);
  if (type == "s64") return ordered<int64_t>(comparison);
  if (type == "u64" || type == "b64") return ordered<uint64_t>(comparison);
  if (type == "f32") return floating<float>(comparison);
  if (type == "f64") return floating<double>(comparison);
  return nullptr;
}

void add_logic(Rows& rows) {
  add_bits<uint16_t>(rows, "b16");
  add_bits<uint32_t>(rows, "b32");
  add_bits<uint64_t>(rows, "b64");
  add_row<look_up>(rows, "lop3.b32");
  rows.push_back({"and.pred", {.function = join_predicates<both<Mask>>}});
  rows.push_back({"or.pred", {.function = join_predicates<either<Mask>>}});
  rows.push_back({"xor.pred", {.function = join_predicates<differ<Mask>>}});
  rows.push_back({"not.pred", {.function = invert_predicate}});
  rows.push_back({"mov.pred", {.function = move_predicate}});
  for (const char* type : {"b16", "u16", "s16", "b32", "u32", "s32", "f32"}) {
    rows.push_back({"selp." + std::string(type), {.function = select<uint32_t>}});
    add_row<same<uint32_t>>(rows, "mov." + std::string(type));
  }
  for (const char* type : {"b64", "u64", "s64", "f64"}) {
    rows.push_back({"selp." + std::string(type), {select<uint64_t>, true, 3}});
    add_row<same<uint64_t>>(rows, "mov." + std::string(type));
  }
}

}  // namespace plimsoll::ptx
