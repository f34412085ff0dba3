// Division and multiples rounded up, of numbers that are not negative.
#pragma once

#include <type_traits>

namespace plimsoll {

template <typename T>
constexpr T divide_up(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

/// The least multiple of `multiple` that is not below `value`.
template <typename T>
constexpr T round_up(T value, std::type_identity_t<T> multiple) {
  return divide_up(value, multiple) * multiple;
}

}  // namespace plimsoll
