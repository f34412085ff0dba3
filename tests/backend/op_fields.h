// The operands of any op, found by the fields of its struct.
#pragma once

#include <cstddef>
#include <type_traits>

#include "backend/ops/ops.h"

namespace plimsoll::testing {

/// Stands for a field of any type where fields are counted.
struct AnyField {
  template <typename T>
  operator T() const;  // NOLINT: is never called
};

inline constexpr size_t kMostFields = 7;

/// The fields of an aggregate: the most values that it can be made of.
template <typename T, typename... Fields>
consteval size_t count_fields(size_t most = 0) {
  if constexpr (requires { T{Fields{}...}; }) most = sizeof...(Fields);
  if constexpr (sizeof...(Fields) > kMostFields) {
    return most;
  } else {
    return count_fields<T, Fields..., AnyField>(most);
  }
}

template <typename T, typename F>
void for_each_field(const T& value, const F& f) {
  constexpr size_t kFields = count_fields<T>();
  static_assert(kFields >= 1 && kFields <= kMostFields);
  const auto each = [&](const auto&... fields) { (f(fields), ...); };
  if constexpr (kFields == 1) {
    const auto& [a] = value;
    each(a);
  } else if constexpr (kFields == 2) {
    const auto& [a, b] = value;
    each(a, b);
  } else if constexpr (kFields == 3) {
    const auto& [a, b, c] = value;
    each(a, b, c);
  } else if constexpr (kFields == 4) {
    const auto& [a, b, c, d] = value;
    each(a, b, c, d);
  } else if constexpr (kFields == 5) {
    const auto& [a, b, c, d, e] = value;
    each(a, b, c, d, e);
  } else if constexpr (kFields == 6) {
    const auto& [a, b, c, d, e, g] = value;
    each(a, b, c, d, e, g);
  } else {
    const auto& [a, b, c, d, e, g, h] = value;
    each(a, b, c, d, e, g, h);
  }
}

/// f(view) for each matrix that an op reads or writes; weights, caches and states apart.
template <typename Op, typename F>
void for_each_view(const Op& op, const F& f) {
  for_each_field(op, [&]<typename Field>(const Field& field) {
    if constexpr (std::is_same_v<Field, backend::View>) {
      f(field);
    } else if constexpr (std::is_aggregate_v<Field> && !std::is_same_v<Field, backend::Weight>) {
      for_each_view(field, f);
    }
  });
}

}  // namespace plimsoll::testing
