// Arithmetic of two 16-bit numbers in one register.
#pragma once

#include "kernels/products/mma.h"

namespace plimsoll::kernels {

#ifdef PLIMSOLL_EMULATION

template <typename T>
Pair pair_of(float low, float high) {
  const T values[2] = {from_float<T>(low), from_float<T>(high)};
  Pair pair;
  std::memcpy(&pair, values, sizeof pair);
  return pair;
}
template <typename T>
Pair subtract(Pair a, Pair b) {
  return pair_of<T>(half_of<T>(a, 0) - half_of<T>(b, 0), half_of<T>(a, 1) - half_of<T>(b, 1));
}
template <typename T>
Pair multiply(Pair a, Pair b) {
  return pair_of<T>(half_of<T>(a, 0) * half_of<T>(b, 0), half_of<T>(a, 1) * half_of<T>(b, 1));
}

#else

template <typename T>
struct PairType;
template <>
struct PairType<__nv_bfloat16> {
  using type = __nv_bfloat162;
};
template <>
struct PairType<__half> {
  using type = __half2;
};
template <typename T>
__device__ typename PairType<T>::type as_two(Pair pair) {
  typename PairType<T>::type two;
  memcpy(&two, &pair, sizeof two);
  return two;
}
template <typename Two>
__device__ Pair as_pair(Two two) {
  Pair pair;
  memcpy(&pair, &two, sizeof pair);
  return pair;
}

/// Rounds to nearest even; `low` goes to the lower half.
template <typename T>
__device__ Pair pair_of(float low, float high) {
  if constexpr (sizeof(T) != 2)
    return 0;
  else if constexpr (std::is_same_v<T, __half>)
    return as_pair(__floats2half2_rn(low, high));
  else
    return as_pair(__floats2bfloat162_rn(low, high));
}
template <typename T>
__device__ Pair subtract(Pair a, Pair b) {
  return as_pair(__hsub2(as_two<T>(a), as_two<T>(b)));
}
template <typename T>
__device__ Pair multiply(Pair a, Pair b) {
  return as_pair(__hmul2(as_two<T>(a), as_two<T>(b)));
}

#endif

/// A pair of one number twice.
template <typename T>
__device__ Pair twice(float x) {
  return pair_of<T>(x, x);
}

}  // namespace plimsoll::kernels
