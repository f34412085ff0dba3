// Digests, JSON text, log probabilities, progress: what is only text.
#include <catch2/catch.hpp>
#include <clocale>
#include <limits>

#include "base/json.h"
#include "batch/digest.h"
#include "batch/json_text.h"
#include "batch/logprobs_text.h"
#include "batch/progress.h"

using namespace plimsoll;
using namespace plimsoll::batch;

TEST_CASE("digests are MurmurHash3's") {
  // Reference: SMHasher's MurmurHash3_x64_128.
  CHECK(hex(digest("")) == "00000000000000000000000000000000");
  CHECK(hex(digest("hello")) == "cbd8a7b341bd9b025b1e906a48ae1d19");
  CHECK(hex(digest("The quick brown fox jumps over the lazy dog")) ==
        "e34bbc7bbc071b6c7a433ca9c49a9347");
  CHECK(digest("a", 1) != digest("a", 2));
}

TEST_CASE("a digest table tells where it saw a digest first") {
  for (const size_t in_memory : {DigestTable::kInMemory, size_t{0}}) {
    DigestTable table({}, in_memory);
    for (uint64_t line = 1; line <= 10000; ++line) {
      CHECK(table.insert(digest(std::to_string(line)), line) == 0);
    }
    CHECK(table.insert(digest("77"), 20000) == 77);
    CHECK(table.insert({0, 0}, 5) == 0);
    CHECK(table.insert({0, 0}, 6) == 5);
    CHECK(table.insert({~uint64_t{0}, 0}, 7) == 0);  // behind the last first place
    CHECK(table.insert({~uint64_t{0}, ~uint64_t{0}}, 8) == 0);
    CHECK(table.replace({~uint64_t{0}, ~uint64_t{0}}, 9) == 8);
    CHECK(table.find({~uint64_t{0}, ~uint64_t{0}}) == 9);
    CHECK(table.size() == 10003);
    CHECK(table.is_on_disk() == (in_memory == 0));
  }
}

TEST_CASE("JSON text is valid, short and in order") {
  JsonText out;
  out.begin_object().key("b").begin_array().integer(-1).unsigned_integer(UINT64_MAX);
  out.null().boolean(true).begin_object().end_object().end_array();
  out.key("a").string("q\"\\\n\x01\x7f\xE2\x82\xAC").end_object();
  CHECK(out.text() ==
        "{\"b\":[-1,18446744073709551615,null,true,{}],\"a\":"
        "\"q\\\"\\\\\\n\\u0001\x7f\xE2\x82\xAC\"}");
}

TEST_CASE("bytes that are not text become U+FFFD") {
  JsonText out;
  out.string("a\xFF\xE2\x82z");
  CHECK(out.text() == "\"a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\"");
  CHECK_NOTHROW(parse_json<Json>(out.text()));
}

TEST_CASE("numbers are the shortest that read back, in any locale") {
  // Without the locale installed the check is that of "C"; with it, commas would show.
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  JsonText out;
  out.begin_array().number(-1.2F).number(0.1).number(1e-7F).number(2.0);
  out.number(std::numeric_limits<double>::infinity()).end_array();
  std::setlocale(LC_ALL, "C");
  CHECK(out.text() == "[-1.2,0.1,1e-07,2,null]");
}

TEST_CASE("a chat's top_logprobs are the likeliest tokens, wherever the drawn one stands") {
  // Drawn tokens of ranks 3, 2 and 1; the best ones follow in order of rank.
  const engine::PositionLogprobs third = {{7, -3.0F, 3}, {5, -0.5F, 1}, {6, -1.0F, 2}};
  const engine::PositionLogprobs second = {{6, -1.0F, 2}, {5, -0.5F, 1}, {7, -3.0F, 3}};
  const engine::PositionLogprobs best = {{5, -0.5F, 1}, {6, -1.0F, 2}};
  const std::vector<TokenPosition> positions = {{7, &third}, {6, &second}, {5, &best}};
  const LogprobsText logprobs(nullptr);
  const auto shown = [&](int64_t top) {
    JsonText out;
    logprobs.chat(out, positions, top);
    std::vector<std::vector<double>> numbers;  // of each position: the token's own, then the best
    const Json json = parse_json<Json>(out.text());
    for (const Json& token : json["content"]) {
      numbers.push_back({token["logprob"].get<double>()});
      for (const Json& entry : token["top_logprobs"])
        numbers.back().push_back(entry["logprob"].get<double>());
    }
    return numbers;
  };
  using Numbers = std::vector<std::vector<double>>;
  CHECK(shown(0) == Numbers{{-3}, {-1}, {-0.5}});
  CHECK(shown(1) == Numbers{{-3, -0.5}, {-1, -0.5}, {-0.5, -0.5}});
  CHECK(shown(2) == Numbers{{-3, -0.5, -1}, {-1, -0.5, -1}, {-0.5, -0.5, -1}});
  for (const int64_t all : {3, -1})
    CHECK(shown(all) == Numbers{{-3, -0.5, -1, -3}, {-1, -0.5, -1, -3}, {-0.5, -0.5, -1}});
}

TEST_CASE("control bytes cannot reach a terminal") {
  CHECK(printable("a\x1b[2Jb\r\n\x7f") == "a\\x1b[2Jb\\x0d\\x0a\\x7f");
  CHECK(printable("\xC2\x9B"
                  "2J\xC3\xA9\xC2\xA0") == "\\xc2\\x9b2J\xC3\xA9\xC2\xA0");
}

TEST_CASE("durations") {
  CHECK(format_duration(-1) == "0:00");
  CHECK(format_duration(42.9) == "0:42");
  CHECK(format_duration(3 * 3600 + 5 * 60 + 9) == "3:05:09");
}

TEST_CASE("the time left goes by what this life of a run has done, once that tells something") {
  ProgressSample sample;
  sample.total = 100;
  sample.seconds = 10;
  sample.fraction = 0.01;
  CHECK_THAT(describe(sample), !Catch::Contains("left"));
  sample.fraction = 0.25;
  CHECK_THAT(describe(sample), Catch::Contains("25 %") && Catch::Contains("0:30 left"));
  sample.before = 0.2;
  CHECK_THAT(describe(sample), Catch::Contains("25 %") && Catch::Contains("2:30 left"));
  sample.before = 0.24;
  CHECK_THAT(describe(sample), !Catch::Contains("left"));
}

TEST_CASE("a bar is redrawn ten times a second, lines come every ten seconds") {
  using namespace std::chrono_literals;
  ProgressSample sample;
  sample.done = 1;
  sample.total = 200;
  sample.fraction = 0.005;
  std::string written;
  const auto write = [&](std::string_view bytes) { written += bytes; };
  const Clock::time_point start{};

  SECTION("bar") {
    Progress progress(ProgressMode::bar, 100, write);
    for (int ms = 0; ms < 1000; ms += 10) {
      progress.tick(start + std::chrono::milliseconds(ms), [&] { return sample; });
    }
    CHECK(std::ranges::count(written, '\r') == 10);
    progress.note("hello");
    CHECK(written.ends_with("\r\x1b[Kplimsoll: hello\n"));
  }
  SECTION("lines") {
    Progress progress(ProgressMode::lines, 80, write);
    for (int s = 0; s <= 25; ++s) {
      progress.tick(start + std::chrono::seconds(s), [&] { return sample; });
    }
    CHECK(std::ranges::count(written, '\n') == 2);
    CHECK_THAT(written, Catch::Contains("1/200 lines"));
  }
  SECTION("an early line at 1 %") {
    sample.fraction = 0.02;
    Progress progress(ProgressMode::lines, 80, write);
    for (int s = 0; s <= 5; ++s) {
      progress.tick(start + std::chrono::seconds(s), [&] { return sample; });
    }
    CHECK(std::ranges::count(written, '\n') == 1);
  }
  SECTION("none") {
    Progress progress(ProgressMode::none, 80, write);
    progress.tick(start + 100s, [&] { return sample; });
    CHECK(written.empty());
  }
  SECTION("narrow terminals") {
    Progress progress(ProgressMode::bar, 1, write);
    progress.tick(start, [&] { return sample; });
    CHECK(written.size() <= 24);
  }
}
