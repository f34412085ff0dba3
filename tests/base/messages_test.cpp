// Texts that messages are made of: sizes, names that are near, lines of a terminal.
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "base/nearest_name.h"
#include "base/size_text.h"
#include "base/wrapped_text.h"

using namespace plimsoll;

TEST_CASE("a size is said in the largest unit that it fills") {
  struct Row {
    int64_t bytes;
    const char* text;
  };
  constexpr int64_t kMebi = int64_t{1} << 20, kGibi = int64_t{1} << 30;
  for (const Row& row : {Row{0, "0 B"},
                         {1023, "1023 B"},
                         {1024, "1.0 KiB"},
                         {1536, "1.5 KiB"},
                         {kMebi - 1, "1024.0 KiB"},
                         {kMebi, "1.0 MiB"},
                         {kGibi - 1, "1024.0 MiB"},
                         {kGibi, "1.00 GiB"},
                         {2048 * kGibi, "2048.00 GiB"},
                         {-5, "-5 B"},
                         {-kMebi, "-1.0 MiB"}}) {
    CHECK(size_text(row.bytes) == row.text);
    if (row.bytes >= 0) CHECK(size_text(static_cast<uint64_t>(row.bytes)) == row.text);
  }
  CHECK(size_text(std::numeric_limits<uint64_t>::max()) == "8589934592.00 GiB");
}

TEST_CASE("a name is near by as many edits as a third of its letters, and by one at least") {
  using Names = std::vector<std::string_view>;
  const auto nearest = [](const std::string& name, const Names& names) {
    return std::string(nearest_name(name, names));
  };
  CHECK(nearest("tq", {"tp"}) == "tp");
  CHECK(nearest("pt", {"tp"}) == "tp");  // neighbours swapped are one edit
  CHECK(nearest("ab", {"cd"}).empty());
  CHECK(nearest("abcdef", {"abcdxy"}) == "abcdxy");
  CHECK(nearest("abcdef", {"abcxyz"}).empty());
  CHECK(nearest("abcde", {"abcxy"}).empty());
  CHECK(nearest("ac", {"ab", "ad"}) == "ab");  // of equally near ones the first
  CHECK(nearest("abcdef", {"abcdxy", "abcdex"}) == "abcdex");
  const std::string longest(64, 'a');
  CHECK(nearest(longest, {longest}) == longest);
  CHECK(nearest(longest + "a", {longest}).empty());
  CHECK(did_you_mean("tp") == "; did you mean tp?");
  CHECK(did_you_mean("").empty());
}

TEST_CASE("lines are as long as there are columns, and no longer") {
  const std::string nine(9, 'a'), ten(10, 'b'), eleven(11, 'c');
  CHECK(wrapped_text(nine + " " + ten, 22, 2) == "  " + nine + " " + ten + "\n");
  CHECK(wrapped_text(nine + " " + eleven, 22, 2) == "  " + nine + "\n  " + eleven + "\n");
  // No fewer than 20 beside the indent, and no word is cut.
  CHECK(wrapped_text(nine + " " + ten, 5, 2) == "  " + nine + " " + ten + "\n");
  CHECK(wrapped_text(std::string(30, 'x') + " y", 22, 2) ==
        "  " + std::string(30, 'x') + "\n  y\n");
  CHECK(wrapped_text("", 22, 2).empty());
}

TEST_CASE("a head stands in the first line's indent, or in a line of its own") {
  CHECK(wrapped_after("-n", "text", 80, 4) == "-n  text\n");
  CHECK(wrapped_after("-nn", "text", 80, 4) == "-nn text\n");
  CHECK(wrapped_after("-nnn", "text", 80, 4) == "-nnn\n    text\n");
  CHECK(wrapped_after("-n", "", 80, 4) == "-n\n");
}
