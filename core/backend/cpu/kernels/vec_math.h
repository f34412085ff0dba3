// exp, tanh, erf and the activations on vectors, to 1-2 units in the last place.
#pragma once

#include "backend/cpu/kernels/vec.h"
#include "model/model_spec.h"

namespace plimsoll::backend {
namespace {

/// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2. Cephes expf.
PLIMSOLL_INLINE Vf exp_tail(Vf r) {
  Vf p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  return fma(p, r, splat(5.0000001201e-1f));
}

/// Zero below -87.3 (where the result would be denormal), exactly 1 at 0. Cephes expf.
PLIMSOLL_INLINE Vf exp(Vf x) {
  constexpr float kLowest = -87.33654f;
  constexpr float kHighest = 88.72283f;
  constexpr float kRounder = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer
  const Vi underflow = x < splat(kLowest);
  const Vi overflow = x > splat(kHighest);
  x = min(max(x, splat(kLowest)), splat(kHighest));
  const Vf n = fma(x, splat(1.44269504088896341f), splat(kRounder)) - splat(kRounder);
  Vf r = fma(n, splat(-0.693359375f), x);
  r = fma(n, splat(2.12194440e-4f), r);
  Vf p = fma(exp_tail(r), r * r, r) + splat(1.f);
  // n reaches 128, whose power of two is no float: multiply in two halves.
  const Vi whole = __builtin_convertvector(n, Vi);
  const Vi half = whole >> 1;
  p = p * from_bits((half + 127) << 23) * from_bits((whole - half + 127) << 23);
  p = select(overflow, splat(__builtin_inff()), p);
  return select(underflow, splat(0.f), p);
}

/// e^x - 1 for x <= 0.
PLIMSOLL_INLINE Vf expm1(Vf x) {
  return select(x > splat(-0.34f), fma(exp_tail(x), x * x, x), exp(x) - splat(1.f));
}

/// Rounded correctly, lane by lane.
PLIMSOLL_INLINE Vf square_root(Vf x) {
  for (int lane = 0; lane < kLanes; ++lane) x[lane] = __builtin_sqrtf(x[lane]);
  return x;
}

/// Cephes tanhf.
PLIMSOLL_INLINE Vf tanh(Vf x) {
  const Vf s = x * x;
  Vf p = splat(-5.70498872745e-3f);
  p = fma(p, s, splat(2.06390887954e-2f));
  p = fma(p, s, splat(-5.37397155531e-2f));
  p = fma(p, s, splat(1.33314422036e-1f));
  p = fma(p, s, splat(-3.33332819422e-1f));
  const Vf small = fma(p * s, x, x);
  const Vf size = abs(x);
  const Vf large = splat(1.f) - splat(2.f) / (exp(size + size) + splat(1.f));
  const Vf signed_large = from_bits(bits(large) | (bits(x) & INT32_MIN));
  return select(size < splat(0.625f), small, signed_large);
}

/// Minimax polynomials after N. Juffa's erff (below 1 unit in the last place).
PLIMSOLL_INLINE Vf erf(Vf x) {
  const Vf t = abs(x);
  const Vf s = x * x;
  Vf large = fma(splat(-1.72853470e-5f), t, splat(3.83197126e-4f));
  large = fma(large, s, fma(splat(-3.88396438e-3f), t, splat(2.42546219e-2f)));
  large = fma(large, t, splat(-1.06777877e-1f));
  large = fma(large, t, splat(-6.34846687e-1f));
  large = fma(large, t, splat(-1.28717512e-1f));
  large = fma(large, t, splat(0.f) - t);
  large = splat(1.f) - exp(large);
  large = from_bits(bits(large) | (bits(x) & INT32_MIN));
  Vf small = splat(-5.96761703e-4f);
  small = fma(small, s, splat(4.99119423e-3f));
  small = fma(small, s, splat(-2.67681349e-2f));
  small = fma(small, s, splat(1.12819925e-1f));
  small = fma(small, s, splat(-3.76125336e-1f));
  small = fma(small, s, splat(1.28379166e-1f));
  small = fma(small, x, x);
  return select(t > splat(0.927734375f), large, small);
}

PLIMSOLL_INLINE Vf sigmoid(Vf x) {
  return splat(1.f) / (splat(1.f) + exp(splat(0.f) - x));
}

template <model::Activation kind>
PLIMSOLL_INLINE Vf activate(Vf x) {
  using model::Activation;
  if constexpr (kind == Activation::silu) {
    return x / (splat(1.f) + exp(splat(0.f) - x));
  } else if constexpr (kind == Activation::gelu) {
    return splat(0.5f) * x * (splat(1.f) + erf(x * splat(0.70710678118654752f)));
  } else if constexpr (kind == Activation::gelu_tanh) {
    const Vf inner = splat(0.79788456080286536f) * fma(splat(0.044715f) * x * x, x, x);
    return splat(0.5f) * x * (splat(1.f) + tanh(inner));
  } else if constexpr (kind == Activation::relu) {
    return max(x, splat(0.f));
  } else if constexpr (kind == Activation::gelu_quick) {
    return x * sigmoid(splat(1.702f) * x);
  } else if constexpr (kind == Activation::relu_squared) {
    return max(x, splat(0.f)) * max(x, splat(0.f));
  } else {
    return x;
  }
}

}  // namespace
}  // namespace plimsoll::backend
