// Saturating counts against 128-bit arithmetic.
#include "base/amount.h"

#include <catch2/catch.hpp>
#include <random>

using plimsoll::Amount;

namespace {

__extension__ typedef __int128 Wide;

int64_t clamped(Wide wide) {
  if (wide > Amount::kMost) return Amount::kMost;
  if (wide < Amount::kLeast) return Amount::kLeast;
  return static_cast<int64_t>(wide);
}

}  // namespace

TEST_CASE("sums, differences and products equal the 128-bit ones, cut at the ends") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto draw = [&] { return static_cast<int64_t>(random()) >> (random() % 63); };
    const int64_t a = draw();
    const int64_t b = draw();
    REQUIRE((Amount{a} + b).value() == clamped(Wide{a} + b));
    REQUIRE((Amount{a} - b).value() == clamped(Wide{a} - b));
    REQUIRE((Amount{a} * b).value() == clamped(Wide{a} * b));
  }
}

TEST_CASE("a saturated count stays large through divisions and roundings") {
  const Amount most = Amount{int64_t{1} << 62} * 8;
  CHECK(most.saturated());
  CHECK((most / 1000).saturated());
  CHECK(plimsoll::ceil_div(most, 16).saturated());
  CHECK(plimsoll::padded_to(most, 64).saturated());
}

TEST_CASE("rounding up") {
  CHECK(plimsoll::ceil_div(0, 16).value() == 0);
  CHECK(plimsoll::ceil_div(1, 16).value() == 1);
  CHECK(plimsoll::ceil_div(32, 16).value() == 2);
  CHECK(plimsoll::padded_to(50257, 64).value() == 50304);
}
