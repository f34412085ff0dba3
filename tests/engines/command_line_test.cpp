// Command lines as Python's argparse reads them, on a table of every kind of flag.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "engines/answer.h"
#include "engines/command_line.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

using Texts = std::vector<std::string>;

constexpr Flag kEach[] = {
    {"--bare,-b", FlagKind::bare},
    {"--text,--txt", FlagKind::text},
    {"--choice", FlagKind::text, "one,two"},
    {"--whole", FlagKind::integer},
    {"--share", FlagKind::number},
    {"--list", FlagKind::list},
    {"--names", FlagKind::names},
    {"--maybe", FlagKind::optional, "on,off"},
    {"--idle", FlagKind::integer, "", false},
    uncounted("--extra", FlagKind::text, "what it takes is not counted"),
    unplanned("--other", FlagKind::integer, "it is not planned"),
};

CommandLine line_of(const Texts& words) {
  return {kEach, "prog", words};
}

std::string refused_line(const Texts& words) {
  try {
    line_of(words);
  } catch (const Refusal& refusal) {
    return refusal.words;
  }
  return "";
}

}  // namespace

TEST_CASE("values of a command line are read by the kind of their flag") {
  const CommandLine line =
      line_of({"-b", "--text=a=b", "--whole", "-7", "--share", "+0.5", "--list", "1", "2",
               "--names", "x", "y", "--maybe", "on", "--idle", "3"});
  CHECK(line.has("--bare"));
  CHECK(!line.has("--choice"));
  CHECK(line.text("--text", "") == "a=b");
  CHECK(line.text("--choice", "none") == "none");
  CHECK(line.integer("--whole") == -7);
  CHECK(line.integer("--idle", 9) == 3);
  CHECK(line.integer("--list", 9) == 1);
  CHECK(!line.integer("--choice"));
  CHECK(line.integer("--choice", 9) == 9);
  CHECK(line.number("--share") == 0.5);
  CHECK(!line.number("--choice"));
  CHECK(line.integers("--list") == std::vector<int64_t>{1, 2});
  CHECK(line.integers("--choice").empty());
  CHECK(line.texts("--names") == Texts{"x", "y"});
  CHECK(line.texts("--choice").empty());
  CHECK(line.text("--maybe", "") == "on");
  CHECK(line.unmoved() == Texts{"--idle"});
}

TEST_CASE("the last of several values counts, and all are kept") {
  const CommandLine line =
      line_of({"--text", "a", "--txt", "b", "--extra", "x", "--extra", "y", "--text", "c"});
  CHECK(line.text("--text", "") == "c");
  CHECK(line.texts("--text") == Texts{"a", "b", "c"});
  Texts notes;
  line.add_notes(notes);
  CHECK(notes == Texts{"--extra: what it takes is not counted"});
}

TEST_CASE("numbers beyond any size are bounded") {
  const CommandLine line = line_of({"--whole", "2000000000000", "--share", "inf"});
  CHECK(line.integer("--whole") == int64_t{1} << 40);
  CHECK(line_of({"--whole", "-2000000000000"}).integer("--whole") == -(int64_t{1} << 40));
  CHECK(line_of({"--whole", "1099511627775"}).integer("--whole") == (int64_t{1} << 40) - 1);
  CHECK(line.number("--share") == 0);
}

TEST_CASE("a word is a value unless it begins a flag") {
  for (const char* word : {"x", "-", "-7", "-0.5", "-1e3", "--a b", ""}) {
    INFO(word);
    CHECK(is_value(word));
  }
  for (const char* word : {"-x", "--x", "-7x"}) {
    INFO(word);
    CHECK(!is_value(word));
  }
}

TEST_CASE("names of flags may be cut while one flag is meant") {
  CHECK(line_of({"--te", "a"}).has("--text"));
  CHECK(line_of({"--wh=5"}).integer("--whole") == 5);
  CHECK(refused_line({"--t", "a"}) ==
        "prog: error: ambiguous option: --t could match --text, --txt");
  CHECK(refused_line({"--"}) == "prog: error: unrecognized arguments: --");
  CHECK(refused_line({"-t", "a"}) == "prog: error: unrecognized arguments: -t a");
  CHECK(find_named(kEach, "--te") == nullptr);
  CHECK(find_named(kEach, "--txt") == &kEach[1]);
}

TEST_CASE("what argparse refuses is refused in its words") {
  CHECK(refused_line({"--text"}) == "prog: error: argument --text/--txt: expected one argument");
  CHECK(refused_line({"--text", "-b"}) ==
        "prog: error: argument --text/--txt: expected one argument");
  CHECK(refused_line({"--list"}) == "prog: error: argument --list: expected at least one argument");
  CHECK(refused_line({"--names", "--bare"}) ==
        "prog: error: argument --names: expected at least one argument");
  CHECK(refused_line({"--whole", "1.5"}) ==
        "prog: error: argument --whole: invalid int value: '1.5'");
  CHECK(refused_line({"--list", "1", "x"}) ==
        "prog: error: argument --list: invalid int value: 'x'");
  CHECK(refused_line({"--share", "x"}) ==
        "prog: error: argument --share: invalid float value: 'x'");
  CHECK(refused_line({"--choice", "three"}) ==
        "prog: error: argument --choice: invalid choice: 'three' (choose from 'one', 'two')");
  CHECK(refused_line({"--bare=1"}) ==
        "prog: error: argument --bare/-b: ignored explicit argument '1'");
  CHECK(refused_line({"a", "--bare", "b"}) == "prog: error: unrecognized arguments: a b");
  CHECK(refused_line({"--maybe", "--bare"}) == "");
  CHECK(refused_line({"--maybe", "half"}) == "prog: error: unrecognized arguments: half");
  // A placeholder stands where no memory is moved.
  for (const char* word : {"$N", "%N%", "{n}", "<n>"}) {
    INFO(word);
    CHECK(refused_line({"--idle", word}) == "");
    CHECK_THAT(refused_line({"--whole", word}), Catch::Contains("invalid int value"));
  }
  CHECK_THROWS_WITH(line_of({"--other=4"}), "--other: it is not planned");
}
