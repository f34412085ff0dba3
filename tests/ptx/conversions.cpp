// Conversions between types.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ptx/arithmetic.h"
#include "ptx/numbers.h"

namespace plimsoll::ptx {
namespace {

/// Results narrower than a register are extended as their type says.
template <typename R>
using Extended = std::conditional_t<sizeof(R) == 8, R,
                                    std::conditional_t<std::is_signed_v<R>, int32_t, uint32_t>>;

template <typename R, typename A>
Extended<R> between_integers(A a) {
  return static_cast<R>(a);
}
template <typename R, typename A>
R to_real(A a) {
  return static_cast<R>(a);
}

enum class Rounding : uint8_t { zero, nearest, down, up };
template <Rounding rounding, typename T>
T to_whole(T a) {
  switch (rounding) {
    case Rounding::zero:
      return std::trunc(a);
    case Rounding::nearest:
      return std::nearbyint(a);
    case Rounding::down:
      return std::floor(a);
    case Rounding::up:
      return std::ceil(a);
  }
  return a;
}
/// Saturates; NaN gives 0, and of 64 bits the highest one.
template <typename R, typename A, Rounding rounding>
R to_integer(A a) {
  const A whole = to_whole<rounding>(a);
  if (std::isnan(whole)) return sizeof(R) == 8 ? static_cast<R>(uint64_t{1} << 63) : R{0};
  if (whole <= static_cast<A>(std::numeric_limits<R>::min())) return std::numeric_limits<R>::min();
  if (whole >= static_cast<A>(std::numeric_limits<R>::max())) return std::numeric_limits<R>::max();
  return static_cast<R>(whole);
}
float saturate(float a) {
  return std::isnan(a) ? 0.f : std::clamp(a, 0.f, 1.f);
}

uint16_t to_f16(float a) {
  return float_to_f16(a);
}
float of_f16(uint16_t a) {
  return f16_to_float(a);
}
float of_bf16(uint16_t a) {
  return from_bf16(a);
}
// The first argument is the pair's high half.
template <uint16_t (*F)(float)>
uint32_t pair(float high, float low) {
  return uint32_t{F(high)} << 16 | F(low);
}
uint16_t to_e4m3_pair(float high, float low) {
  return static_cast<uint16_t>(to_e4m3(high) << 8 | to_e4m3(low));
}
uint32_t of_e4m3_pair(uint16_t a) {
  const auto half = [](int bits) {
    return uint32_t{float_to_f16(from_e4m3(static_cast<uint8_t>(bits)))};
  };
  return half(a >> 8) << 16 | half(a & 0xff);
}

template <typename A>
void add_from_integer(Rows& rows, const std::string& from) {
  const auto name = [&](const char* to) { return "cvt." + std::string(to) + "." + from; };
  add_row<between_integers<int8_t, A>>(rows, name("s8"));
  add_row<between_integers<uint8_t, A>>(rows, name("u8"));
  add_row<between_integers<int16_t, A>>(rows, name("s16"));
  add_row<between_integers<uint16_t, A>>(rows, name("u16"));
  add_row<between_integers<int32_t, A>>(rows, name("s32"));
  add_row<between_integers<uint32_t, A>>(rows, name("u32"));
  add_row<between_integers<int64_t, A>>(rows, name("s64"));
  add_row<between_integers<uint64_t, A>>(rows, name("u64"));
  add_row<to_real<float, A>>(rows, name("rn.f32"));
  add_row<to_real<double, A>>(rows, name("rn.f64"));
}

template <typename A, Rounding rounding>
void add_rounding(Rows& rows, const std::string& how, const std::string& from) {
  const auto name = [&](const std::string& to) { return "cvt." + how + "." + to + "." + from; };
  add_row<to_integer<int32_t, A, rounding>>(rows, name("s32"));
  add_row<to_integer<uint32_t, A, rounding>>(rows, name("u32"));
  add_row<to_integer<int64_t, A, rounding>>(rows, name("s64"));
  add_row<to_integer<uint64_t, A, rounding>>(rows, name("u64"));
  add_row<to_whole<rounding, A>>(rows, name(from));
}
template <typename A>
void add_from_real(Rows& rows, const std::string& from) {
  add_rounding<A, Rounding::zero>(rows, "rzi", from);
  add_rounding<A, Rounding::nearest>(rows, "rni", from);
  add_rounding<A, Rounding::down>(rows, "rmi", from);
  add_rounding<A, Rounding::up>(rows, "rpi", from);
}

}  // namespace

void add_conversions(Rows& rows) {
  add_from_integer<int8_t>(rows, "s8");
  add_from_integer<uint8_t>(rows, "u8");
  add_from_integer<int16_t>(rows, "s16");
  add_from_integer<uint16_t>(rows, "u16");
  add_from_integer<int32_t>(rows, "s32");
  add_from_integer<uint32_t>(rows, "u32");
  add_from_integer<int64_t>(rows, "s64");
  add_from_integer<uint64_t>(rows, "u64");
  add_from_real<float>(rows, "f32");
  add_from_real<double>(rows, "f64");
  add_row<saturate>(rows, "cvt.sat.f32.f32");
  add_row<to_real<float, double>>(rows, "cvt.rn.f32.f64");
  add_row<to_real<double, float>>(rows, "cvt.f64.f32");
  add_row<of_bf16>(rows, "cvt.f32.bf16");
  add_row<of_f16>(rows, "cvt.f32.f16");
  add_row<to_bf16>(rows, "cvt.rn.bf16.f32");
  add_row<to_bf16_toward_zero>(rows, "cvt.rz.bf16.f32");
  add_row<to_f16>(rows, "cvt.rn.f16.f32");
  add_row<pair<to_bf16>>(rows, "cvt.rn.bf16x2.f32");
  add_row<pair<to_f16>>(rows, "cvt.rn.f16x2.f32");
  add_row<to_e4m3_pair>(rows, "cvt.rn.satfinite.e4m3x2.f32");
  add_row<of_e4m3_pair>(rows, "cvt.rn.f16x2.e4m3x2");
}

}  // namespace plimsoll::ptx
