// Arithmetic of floats, of doubles, and of pairs of 16-bit floats in one register.
#include <cmath>
#include <cstdint>

#include "ptx/arithmetic.h"
#include "ptx/numbers.h"

namespace plimsoll::ptx {
namespace {

template <typename T>
T add(T a, T b) {
  return a + b;
}
template <typename T>
T subtract(T a, T b) {
  return a - b;
}
template <typename T>
T multiply(T a, T b) {
  return a * b;
}
template <typename T>
T divide(T a, T b) {
  return a / b;
}
template <typename T>
T multiply_add(T a, T b, T c) {
  return std::fma(a, b, c);
}
template <typename T>
T negate(T a) {
  return -a;
}
template <typename T>
T absolute(T a) {
  return std::fabs(a);
}
template <typename T>
T reciprocal(T a) {
  return 1 / a;
}
template <typename T>
T root(T a) {
  return std::sqrt(a);
}
float reciprocal_root(float a) {
  return 1.f / std::sqrt(a);
}
float power_of_two(float a) {
  return std::exp2(a);
}
float logarithm(float a) {
  return std::log2(a);
}
float sine(float a) {
  return std::sin(a);
}
float cosine(float a) {
  return std::cos(a);
}
float hyperbolic_tangent(float a) {
  return std::tanh(a);
}
float copy_sign(float sign, float size) {
  return std::copysign(size, sign);
}
/// What a function is with subnormal arguments and results as zeros.
template <float (*F)(float)>
float flushed(float a) {
  return flush(F(flush(a)));
}

/// NaN where both are; -0 is smaller than 0.
float smaller(float a, float b) {
  if (std::isnan(a)) return std::isnan(b) ? std::bit_cast<float>(0x7fffffffu) : b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return b < a ? b : a;
}
float larger(float a, float b) {
  return -smaller(-a, -b);
}

enum class Op : uint8_t { add, subtract, multiply, smaller, larger };
template <Op op>
double combine(float a, float b) {
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  switch (op) {
    case Op::add:
      return x + y;
    case Op::subtract:
      return x - y;
    case Op::multiply:
      return x * y;
    case Op::smaller:
      return static_cast<double>(smaller(a, b));
    case Op::larger:
      return static_cast<double>(larger(a, b));
  }
  return 0;
}
template <bool kBf16>
float half_of(uint32_t pair, unsigned which) {
  return from_half<kBf16>(static_cast<uint16_t>(pair >> 16 * which));
}
template <bool kBf16, Op op>
uint32_t pair(uint32_t a, uint32_t b) {
  uint32_t result = 0;
  for (unsigned which = 0; which < 2; ++which) {
    const double exact = combine<op>(half_of<kBf16>(a, which), half_of<kBf16>(b, which));
    result |= uint32_t{to_half<kBf16>(exact)} << 16 * which;
  }
  return result;
}
template <bool kBf16, Op op>
uint16_t single(uint16_t a, uint16_t b) {
  return to_half<kBf16>(combine<op>(from_half<kBf16>(a), from_half<kBf16>(b)));
}
template <bool kBf16>
uint32_t pair_multiply_add(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result = 0;
  for (unsigned which = 0; which < 2; ++which) {
    const double exact = static_cast<double>(half_of<kBf16>(a, which)) *
                             static_cast<double>(half_of<kBf16>(b, which)) +
                         static_cast<double>(half_of<kBf16>(c, which));
    result |= uint32_t{to_half<kBf16>(exact)} << 16 * which;
  }
  return result;
}
template <uint32_t signs>
uint32_t negate_pair(uint32_t a) {
  return a ^ signs;
}

template <bool kBf16>
void add_halves(Rows& rows, const std::string& type) {
  add_row<pair<kBf16, Op::add>>(rows, "add." + type + "x2");
  add_row<pair<kBf16, Op::subtract>>(rows, "sub." + type + "x2");
  add_row<pair<kBf16, Op::multiply>>(rows, "mul." + type + "x2");
  add_row<pair<kBf16, Op::smaller>>(rows, "min." + type + "x2");
  add_row<pair<kBf16, Op::larger>>(rows, "max." + type + "x2");
  add_row<pair_multiply_add<kBf16>>(rows, "fma." + type + "x2");
  add_row<negate_pair<0x80008000u>>(rows, "neg." + type + "x2");
  add_row<single<kBf16, Op::add>>(rows, "add." + type);
  add_row<single<kBf16, Op::subtract>>(rows, "sub." + type);
  add_row<single<kBf16, Op::multiply>>(rows, "mul." + type);
  add_row<single<kBf16, Op::smaller>>(rows, "min." + type);
  add_row<single<kBf16, Op::larger>>(rows, "max." + type);
}

template <typename T>
void add_type(Rows& rows, const std::string& type) {
  add_row<add<T>>(rows, "add." + type);
  add_row<subtract<T>>(rows, "sub." + type);
  add_row<multiply<T>>(rows, "mul." + type);
  add_row<divide<T>>(rows, "div." + type);
  add_row<multiply_add<T>>(rows, "fma." + type);
  add_row<negate<T>>(rows, "neg." + type);
  add_row<absolute<T>>(rows, "abs." + type);
  add_row<reciprocal<T>>(rows, "rcp." + type);
  add_row<root<T>>(rows, "sqrt." + type);
}

}  // namespace

void add_floats(Rows& rows) {
  add_type<float>(rows, "f32");
  add_type<double>(rows, "f64");
  add_halves<true>(rows, "bf16");
  add_halves<false>(rows, "f16");
  add_row<smaller>(rows, "min.f32");
  add_row<larger>(rows, "max.f32");
  add_row<add_toward_zero>(rows, "add.rz.f32");
  add_row<multiply_add_down>(rows, "fma.rm.f32");
  add_row<reciprocal_root>(rows, "rsqrt.f32");
  add_row<power_of_two>(rows, "ex2.f32");
  add_row<flushed<power_of_two>>(rows, "ex2.ftz.f32");
  add_row<logarithm>(rows, "lg2.f32");
  add_row<flushed<logarithm>>(rows, "lg2.ftz.f32");
  add_row<flushed<reciprocal<float>>>(rows, "rcp.ftz.f32");
  add_row<flushed<root<float>>>(rows, "sqrt.ftz.f32");
  add_row<sine>(rows, "sin.f32");
  add_row<cosine>(rows, "cos.f32");
  add_row<hyperbolic_tangent>(rows, "tanh.f32");
  add_row<copy_sign>(rows, "copysign.f32");
}

}  // namespace plimsoll::ptx
