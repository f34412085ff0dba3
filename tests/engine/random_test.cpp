#include "engine/sampling/random.h"

#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "engine/cache/hash.h"

using namespace plimsoll::engine;

TEST_CASE("SipHash-2-4-128 answers as its authors' test vectors") {
  const Hash128 key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::vector<uint8_t> bytes(63);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const auto hash = [&](size_t size) {
    return siphash128(key, std::as_bytes(std::span(bytes).first(size)));
  };
  CHECK(hash(0) == Hash128{0xe6a825ba047f81a3, 0x930255c71472f66d});
  CHECK(hash(1) == Hash128{0x44af996bd8c187da, 0x45fc229b11597634});
}

TEST_CASE("Philox4x32-10 answers as its authors' test vectors") {
  using Words = std::array<uint32_t, 4>;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("numbers depend on seed, line, choice and position") {
  const TokenRandom random(1, "line", std::nullopt, 0);
  CHECK(random.uniform(3) == TokenRandom(1, "line", std::nullopt, 0).uniform(3));
  std::set<double> numbers = {random.uniform(3),
                              random.uniform(4),
                              TokenRandom(2, "line", std::nullopt, 0).uniform(3),
                              TokenRandom(1, "other", std::nullopt, 0).uniform(3),
                              TokenRandom(1, "line", std::nullopt, 1).uniform(3),
                              TokenRandom(1, "line", 1, 0).uniform(3)};
  CHECK(numbers.size() == 6);
}

TEST_CASE("a line's own seed makes run seed and line indifferent") {
  CHECK(TokenRandom(1, "a", 7, 2).uniform(0) == TokenRandom(9, "b", 7, 2).uniform(0));
  CHECK(TokenRandom(1, "a", 7, 2).uniform(0) != TokenRandom(1, "a", -7, 2).uniform(0));
}

TEST_CASE("numbers are uniform") {
  const TokenRandom random(1, "line", std::nullopt, 0);
  constexpr int kDraws = 100'000;
  std::array<int, 10> tenths{};
  for (int i = 0; i < kDraws; ++i) {
    const double number = random.uniform(i);
    REQUIRE(number >= 0);
    REQUIRE(number < 1);
    ++tenths[static_cast<size_t>(number * 10)];
  }
  // 5 standard deviations of a binomial count.
  for (const int count : tenths) CHECK(std::abs(count - kDraws / 10) < 5 * 95);
}
