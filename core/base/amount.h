// Counts of bytes, elements and tokens that saturate: a product too large for 64 bits stays the
// largest number, so it can never look small and pass a check that it should fail.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace plimsoll {

/// Bytes of a float32 number.
inline constexpr int64_t kFloat32 = 4;

/// A count whose sums and products stop at the largest (smallest) 64-bit number.
class Amount {
 public:
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

  constexpr Amount() = default;
  constexpr Amount(int64_t value) : value_(value) {}  // NOLINT: a plain number is an amount

  [[nodiscard]] constexpr int64_t value() const { return value_; }
  [[nodiscard]] constexpr bool saturated() const { return value_ == kMost || value_ == kLeast; }

  friend constexpr Amount operator+(Amount a, Amount b) {
    int64_t sum = 0;
    if (!__builtin_add_overflow(a.value_, b.value_, &sum)) return sum;
    return a.value_ > 0 ? kMost : kLeast;
  }
  friend constexpr Amount operator-(Amount a, Amount b) {
    int64_t difference = 0;
    if (!__builtin_sub_overflow(a.value_, b.value_, &difference)) return difference;
    return a.value_ > 0 ? kMost : kLeast;
  }
  friend constexpr Amount operator*(Amount a, Amount b) {
    int64_t product = 0;
    if (!__builtin_mul_overflow(a.value_, b.value_, &product)) return product;
    return (a.value_ > 0) == (b.value_ > 0) ? kMost : kLeast;
  }
  /// Rounds toward zero; the divisor must not be zero.
  friend constexpr Amount operator/(Amount a, Amount b) {
    if (a.value_ == kMost) return kMost;
    return a.value_ / b.value_;
  }
  Amount& operator+=(Amount other) { return *this = *this + other; }
  Amount& operator-=(Amount other) { return *this = *this - other; }
  friend constexpr auto operator<=>(Amount, Amount) = default;

 private:
  int64_t value_ = 0;
};

/// a / b rounded up, for a >= 0 and b > 0.
constexpr Amount ceil_div(Amount a, Amount b) {
  if (a.value() == Amount::kMost) return a;
  return a.value() / b.value() + (a.value() % b.value() != 0);
}

/// The smallest multiple of b that is at least a.
constexpr Amount padded_to(Amount a, Amount b) {
  return ceil_div(a, b) * b;
}

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

}  // namespace plimsoll
