#include "grammar/decimal.h"

#include <algorithm>
#include <cstdlib>

#include "grammar/patterns/automaton.h"

namespace plimsoll::grammar {
namespace {

constexpr long kMaxDigits = 330;  // more than doubles reach

// Digits before the point, and `places` behind it.
std::string scaled(const Decimal& d, size_t places) {
  std::string digits = d.whole + d.fraction + std::string(places - d.fraction.size(), '0');
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

std::strong_ordering compare_digits(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() <=> b.size() : a <=> b;
}

// a - b, of whole numbers by their digits; a is the larger one.
std::string difference(std::string a, const std::string& b) {
  int borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    char& digit = a[a.size() - 1 - i];
    const int left = digit - '0' - borrow - (i < b.size() ? b[b.size() - 1 - i] - '0' : 0);
    borrow = left < 0 ? 1 : 0;
    digit = static_cast<char>('0' + left + 10 * borrow);
  }
  a.erase(0, std::min(a.find_first_not_of('0'), a.size()));
  return a;
}

}  // namespace

bool is_number(const OrderedJson& value) {
  return value.is_number() || value.is_binary();
}

Decimal decimal_of(const OrderedJson& number) {
  if (!is_number(number)) throw TooLarge("it is no number");
  std::string text = exact_text_of(number);
  Decimal d;
  if (text[0] == '-') {
    d.negative = true;
    text.erase(0, 1);
  }
  long exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string::npos) {
    if (text.size() - e > 8) throw TooLarge("a number has too many digits");
    exponent = std::stol(text.substr(e + 1));
    text.resize(e);
  }
  const size_t dot = text.find('.');
  std::string digits = text.substr(0, dot);
  const long behind = dot == std::string::npos ? 0 : static_cast<long>(text.size() - dot - 1);
  if (dot != std::string::npos) digits += text.substr(dot + 1);
  long point = static_cast<long>(digits.size()) - behind + exponent;
  if (std::abs(point) > kMaxDigits) throw TooLarge("a number has too many digits");
  if (point < 0) {
    digits.insert(0, static_cast<size_t>(-point), '0');
    point = 0;
  }
  if (point > static_cast<long>(digits.size())) digits.resize(static_cast<size_t>(point), '0');
  d.whole = digits.substr(0, static_cast<size_t>(point));
  d.fraction = digits.substr(static_cast<size_t>(point));
  d.whole.erase(0, std::min(d.whole.find_first_not_of('0'), d.whole.size()));
  if (d.whole.empty()) d.whole = "0";
  d.fraction.resize(d.fraction.find_last_not_of('0') + 1);
  if (d.is_zero()) d.negative = false;
  return d;
}

std::strong_ordering compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return b.negative <=> a.negative;
  const Decimal &low = a.negative ? b : a, &high = a.negative ? a : b;
  const auto whole = compare_digits(low.whole, high.whole);
  return whole != 0 ? whole : low.fraction <=> high.fraction;
}

bool is_multiple(const Decimal& a, const Decimal& divisor) {
  const size_t places = std::max(a.fraction.size(), divisor.fraction.size());
  const std::string parts = scaled(divisor, places);
  std::string rest;
  for (const char digit : scaled(a, places)) {
    if (!rest.empty() || digit != '0') rest += digit;
    WorkLimit::spend(static_cast<int64_t>(parts.size()) / 8 + 1);
    while (compare_digits(rest, parts) >= 0) rest = difference(rest, parts);
  }
  return rest.empty();
}

bool equal(const OrderedJson& a, const OrderedJson& b) {
  if (is_number(a) && is_number(b)) return compare(decimal_of(a), decimal_of(b)) == 0;
  if (a.type() != b.type() || (a.is_structured() && a.size() != b.size())) return false;
  if (a.is_array()) return std::ranges::equal(a, b, equal);
  if (!a.is_object()) return a == b;
  return std::ranges::all_of(a.items(), [&](const auto& item) {
    const auto same = b.find(item.key());
    return same != b.end() && equal(item.value(), *same);
  });
}

}  // namespace plimsoll::grammar
