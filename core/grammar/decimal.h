// Decimal numbers, exact.
#pragma once

#include <compare>
#include <string>

#include "base/json.h"

namespace plimsoll::grammar {

/// Digits before and behind the point, without needless zeros. Zero is not negative.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;

  [[nodiscard]] bool is_zero() const { return whole == "0" && fraction.empty(); }
};

/// True for a number, also one that is kept as its text (JsonLimits::number_texts).
bool is_number(const OrderedJson& value);
/// The number as it is written; of a double the shortest text that reads back as it. Throws
/// TooLarge for one whose first digit is more than 330 places away from the point, and for what is
/// no number.
Decimal decimal_of(const OrderedJson& number);

std::strong_ordering compare(const Decimal& a, const Decimal& b);
/// Whether `a` is a whole number of times `divisor`, which is above zero.
bool is_multiple(const Decimal& a, const Decimal& divisor);

/// Whether JSON values are the same: numbers by their values, objects in any order.
bool equal(const OrderedJson& a, const OrderedJson& b);

}  // namespace plimsoll::grammar
