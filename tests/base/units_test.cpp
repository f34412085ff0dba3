// Counts, sizes, shares and times of the command line.
#include "base/units.h"

#include <catch2/catch.hpp>
#include <stdexcept>

using namespace plimsoll;
using Catch::Contains;

TEST_CASE("each unit of a count is that of a size") {
  struct Row {
    const char* unit;
    uint64_t factor;
  };
  constexpr uint64_t kKibi = 1024, kMebi = kKibi * kKibi, kGibi = kMebi * kKibi;
  for (const Row& row : {Row{"", 1},
                         {"B", 1},
                         {"k", 1'000},
                         {"KB", 1'000},
                         {"m", 1'000'000},
                         {"MB", 1'000'000},
                         {"g", 1'000'000'000},
                         {"GB", 1'000'000'000},
                         {"t", 1'000'000'000'000},
                         {"TB", 1'000'000'000'000},
                         {"K", kKibi},
                         {"KiB", kKibi},
                         {"M", kMebi},
                         {"MiB", kMebi},
                         {"G", kGibi},
                         {"GiB", kGibi},
                         {"T", kGibi * kKibi},
                         {"TiB", kGibi * kKibi}}) {
    INFO(row.unit);
    const std::string three = std::string("3") + row.unit;
    CHECK(parse_size(three) == 3 * row.factor);
    CHECK(parse_count(three) == static_cast<int64_t>(3 * row.factor));
    // What a bare number means changes no unit.
    if (*row.unit != '\0') CHECK(parse_size(three, 7) == 3 * row.factor);
  }
  CHECK(parse_size("3", 7) == 21);
  CHECK(parse_size("1.5K") == 1536);
  CHECK(parse_size("4194303T") == uint64_t{4194303} << 40);
  CHECK_THROWS_WITH(parse_size("4194304T"), Contains("below 2^62"));  // 2^22 of 2^40
}

TEST_CASE("digits may be parted by single underscores") {
  CHECK(parse_count("1_0_0") == 100);
  for (const char* wrong : {"_1", "1_", "1__0", "1_k"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_count(wrong), std::invalid_argument);
  }
}

TEST_CASE("bounds of a count are among what may be given") {
  CHECK(parse_count("3", {3, 5}) == 3);
  CHECK(parse_count("5", {3, 5}) == 5);
  for (const char* wrong : {"2", "6"})
    CHECK_THROWS_WITH(parse_count(wrong, {3, 5}), Contains("a number from 3 to 5"));
  CHECK(parse_count("3", {.least = 3}) == 3);
  CHECK_THROWS_WITH(parse_count("2", {.least = 3}), "expected a number of at least 3");
  CHECK_THROWS_AS(parse_count("0", CountBounds{}), std::invalid_argument);
}

TEST_CASE("lists of counts, in brackets or bare") {
  using Counts = std::vector<int64_t>;
  CHECK(parse_counts("1,2,4") == Counts{1, 2, 4});
  CHECK(parse_counts("[1, 2, 4]") == Counts{1, 2, 4});
  CHECK(parse_counts("1k 1K,7") == Counts{1000, 1024, 7});
  CHECK(parse_counts("").empty());
  CHECK(parse_counts("[]").empty());
  CHECK_THROWS_AS(parse_counts("1,x"), std::invalid_argument);
}

TEST_CASE("memory of few bare bytes is asked about, in the unit that is meant") {
  CHECK(parse_memory("65536") == 65536);
  CHECK(parse_memory("65535B") == 65535);
  CHECK(parse_memory("1KiB") == 1024);
  CHECK_THROWS_WITH(parse_memory("65535"), Contains("65535MiB meant"));
  CHECK_THROWS_WITH(parse_memory("1024"), "1024 is 1024 bytes; is 1024MiB meant?");
  CHECK_THROWS_WITH(parse_memory("1023"), "1023 is 1023 bytes; is 1023GiB meant?");
  CHECK_THROWS_WITH(parse_memory("0"), Contains("a size above 0"));
  CHECK(parse_size("1024", 1, 1024) == 1024);
  CHECK_THROWS_AS(parse_size("1023", 1, 1024), std::invalid_argument);
}

TEST_CASE("a share is above 0 and at most 1") {
  CHECK(parse_share("1") == 1);
  CHECK(parse_share("0.001") == 0.001);
  for (const char* wrong : {"0", "1.001", "-0.5", "0.5x", "x", "", "nan"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(parse_share(wrong), Contains("above 0 and at most 1"));
  }
}

TEST_CASE("times are sums of their parts, and a bare part is seconds") {
  CHECK(parse_duration("2m") == 120);
  CHECK(parse_duration("1h30m15s") == 3600 + 30 * 60 + 15);
  CHECK(parse_duration("2d1h") == 2 * 86400 + 3600);
  CHECK(parse_duration("1.5h") == 5400);
  CHECK(parse_duration("5m3") == 303);
  for (const char* wrong : {"", "m", "5x", "5m x", "-5s"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_duration(wrong), std::invalid_argument);
  }
}
