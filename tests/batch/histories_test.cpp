// Histories of a run drawn at random: lives that stop, fail lines, try them again, are published
// half done or torn. A line has in the end what it was given last.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "batch/files/existing_output.h"
#include "batch/files/publish.h"
#include "batch/run_life.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Life;
using test::live;
using test::Scratch;

namespace {

constexpr uint64_t kLines = 12;

/// Every third line has no id of its own.
std::string input() {
  std::string text;
  for (uint64_t line = 1; line <= kLines; ++line)
    text += line % 3 == 0 ? "\"x\"\n" : fmt::format("{{\"id\":\"a{}\",\"prompt\":\"x\"}}\n", line);
  return text;
}

std::string record_of(uint64_t slot, bool failed, int life) {
  const uint64_t line = slot + 1;
  const std::string id = line % 3 == 0 ? std::to_string(line) : fmt::format("a{}", line);
  if (!failed)
    return fmt::format("{{\"id\":\"{}\",\"choices\":[\"of life {}\"],\"error\":null}}\n", id, life);
  return fmt::format(
      "{{\"id\":\"{}\",\"choices\":[],\"usage\":null,\"error\":{{\"code\":\"too_long\",\"message\":"
      "\"of life {}\",\"line\":{}}}}}\n",
      id, life, line);
}

struct Record {
  bool failed = false;
  std::string text;
};

class History {
 public:
  explicit History(unsigned seed) : random_(seed), errors_apart_(seed % 2 == 1) {
    scratch_.write("in", input());
  }

  /// Lives that stop anywhere, with and without another try of what failed, and what comes between.
  void pass(int lives) {
    for (life_ = 1; life_ <= lives; ++life_) {
      const bool ended = go_on(draw(2) == 0 ? Failed::retry : Failed::keep, draw(kLines + 2));
      if (draw(4) == 0 && records() > 0) publish_what_is_there(scratch_.path("out"));
      if (!ended && draw(3) == 0 && scratch_.has("out.part"))
        std::ofstream(scratch_.path("out.part"), std::ios::app) << "{\"id\":\"a2\",\"choi";
    }
    REQUIRE(go_on(Failed::keep, kLines));
  }

  void check() const {
    std::string answers, failures;
    for (const std::optional<Record>& record : last_) {
      REQUIRE(record);
      (record->failed && errors_apart_ ? failures : answers) += record->text;
    }
    CHECK(scratch_.read("out") == answers);
    if (errors_apart_) CHECK(scratch_.read("bad") == failures);
    CHECK(!scratch_.has("out.part"));
  }

 private:
  uint64_t draw(uint64_t below) { return random_() % below; }
  [[nodiscard]] size_t records() const {
    return static_cast<size_t>(
        std::ranges::count_if(last_, [](const auto& r) { return r.has_value(); }));
  }

  bool go_on(Failed failed, uint64_t stop_after) {
    Life life{.lines = kLines,
              .order = static_cast<unsigned>(random_()),
              .stop_after = stop_after,
              .errors_apart = errors_apart_};
    life.options.resume.failed = failed;
    life.record = [&](uint64_t slot, bool& is_failed) {
      is_failed = draw(3) == 0;
      last_[slot] = Record{is_failed, record_of(slot, is_failed, life_)};
      return last_[slot]->text;
    };
    return live(scratch_, life);
  }

  const Scratch scratch_;
  std::mt19937 random_;
  const bool errors_apart_;
  int life_ = 0;
  std::vector<std::optional<Record>> last_ = std::vector<std::optional<Record>>(kLines);
};

}  // namespace

TEST_CASE("a line has what it was given last, whatever the lives of its run were") {
  const auto seeds = static_cast<unsigned>(testing::times(400, 130));
  for (unsigned seed = 0; seed < seeds; ++seed) {
    INFO("history " << seed);
    History history(seed);
    history.pass(1 + static_cast<int>(seed % 7));
    history.check();
  }
}

TEST_CASE("a run that has failures alone so far is a run") {
  const Scratch scratch;
  scratch.write("in", input());
  Life life{.lines = kLines, .stop_after = 2, .errors_apart = true};
  life.record = [](uint64_t slot, bool& failed) {
    failed = true;
    return record_of(slot, true, 1);
  };
  CHECK(!live(scratch, life));
  CHECK(!scratch.has("out.part"));
  RunFilesOptions other;
  other.output = scratch.path("out");
  other.errors = scratch.path("bad");
  other.job = {{"seed", 2}};
  CHECK_THROWS_WITH(refuse_other_run(other), Catch::Contains("belongs to another run"));
  const files::InputFile input = files::InputFile::open("/dev/null");  // not to be read again
  CHECK_THROWS_WITH(refuse_stream(other.output, other.errors, input),
                    Catch::Contains("holds lines of a run that did not end"));
  CHECK_NOTHROW(refuse_stream(other.output, "", input));
  const Published published = publish_what_is_there(scratch.path("out"));
  CHECK(published.manifest.failed == 2);
  CHECK(published.manifest.missing == kLines - 2);
}
