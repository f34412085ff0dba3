// How a run is told to people and counted: bars, lines, durations, tokens, memory of the process.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "batch/progress.h"
#include "batch/read_request.h"
#include "batch/report.h"
#include "batch/run_counts.h"
#include "batch/tool_chat.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using namespace std::chrono_literals;
using testing::finished_chat;
using testing::tool_chat;

namespace {

size_t count_of(std::string_view text, char letter) {
  return static_cast<size_t>(std::ranges::count(text, letter));
}

/// What a bar of so many columns shows of a share.
std::string bar(int columns, std::optional<double> fraction) {
  std::string shown;
  Progress progress(ProgressMode::bar, columns, [&](std::string_view bytes) { shown += bytes; });
  progress.tick(Clock::now(), [&] {
    ProgressSample sample;
    sample.fraction = fraction;
    return sample;
  });
  return shown.substr(std::string_view("\r\x1b[K").size());
}

}  // namespace

TEST_CASE("hours begin with the first one") {
  for (const auto& [seconds, text] : {std::pair{0.0, "0:00"},
                                      {59.9, "0:59"},
                                      {60.0, "1:00"},
                                      {3599.9, "59:59"},
                                      {3600.0, "1:00:00"},
                                      {3661.0, "1:01:01"},
                                      {36000.0, "10:00:00"},
                                      {90061.0, "25:01:01"}}) {
    CHECK(format_duration(seconds) == text);
  }
}

TEST_CASE("a bar is as full as the work is done, and no longer than its line") {
  for (const double fraction : {0.0, 0.25, 0.5, 0.75, 1.0, 1.5}) {
    INFO(fraction);
    const std::string shown = bar(200, fraction);
    const size_t full = count_of(shown, '#'), cells = full + count_of(shown, '.');
    CHECK(cells == 40);
    CHECK(full == static_cast<size_t>(40 * std::min(fraction, 1.0)));
    const size_t open = shown.find('['), close = shown.find(']');
    CHECK(close - open == 41);
    CHECK(shown.find('.') >= shown.find_last_of('#') + 1);  // full cells stand first
  }
  for (int columns = 20; columns < 200; ++columns) {
    const std::string shown = bar(columns, 0.5);
    CHECK(shown.size() < static_cast<size_t>(columns));
    const size_t cells = count_of(shown, '#') + count_of(shown, '.');
    CHECK((cells == 0 || cells >= 10));
  }
  CHECK(bar(120, std::nullopt).find('[') == std::string::npos);
}

TEST_CASE("a bar is erased when the run ends, once, and a line beside it stands by itself") {
  std::string shown;
  Progress progress(ProgressMode::bar, 80, [&](std::string_view bytes) { shown += bytes; });
  const auto sample = [] { return ProgressSample{}; };
  progress.finish();
  progress.note("one");
  CHECK(shown == "plimsoll: one\n");
  progress.tick(Clock::now(), sample);
  shown.clear();
  progress.note("two");
  CHECK(shown == "\r\x1b[Kplimsoll: two\n");
  progress.tick(Clock::now() + 1s, sample);
  shown.clear();
  progress.finish();
  CHECK(shown == "\r\x1b[K");
  progress.finish();
  CHECK(shown == "\r\x1b[K");
}

TEST_CASE("the early line comes with the first hundredth of the work, where that is known") {
  const auto lines = [](std::optional<double> fraction, Clock::duration after) {
    std::string written;
    Progress progress(ProgressMode::lines, 80, [&](std::string_view text) { written += text; });
    const Clock::time_point start{};
    for (const Clock::duration at : {Clock::duration(0), after}) {
      progress.tick(start + at, [&] {
        ProgressSample sample;
        sample.fraction = fraction;
        return sample;
      });
    }
    return count_of(written, '\n');
  };
  CHECK(lines(0.01, 500ms) == 1);
  CHECK(lines(0.01, 499ms) == 0);
  CHECK(lines(0.0099, 9999ms) == 0);
  CHECK(lines(0.0099, 10s) == 1);
  CHECK(lines(std::nullopt, 5s) == 0);
  CHECK(lines(std::nullopt, 10s) == 1);
}

TEST_CASE("tokens and answers are counted over all parts and choices of a line") {
  RunCounts counts;
  FinishedLine line = finished_chat(tool_chat(R"("n":2,"guided_regex":"a+")"), {"a", "b"});
  line.outputs.push_back(line.outputs[0]);
  int64_t number = 1;
  for (engine::RequestOutput& output : line.outputs) {
    output.prompt_tokens = 10 * number;
    output.cached_tokens = number;
    for (engine::Completion& answer : output.completions) {
      answer.token_ids.assign(static_cast<size_t>(number), 5);
    }
    ++number;
  }
  line.outputs[1].completions[0].finish = engine::FinishReason::length;
  counts.add(line, false);
  CHECK(counts.prompt_tokens == 30);
  CHECK(counts.cached_tokens == 3);
  CHECK(counts.completion_tokens == 1 + 1 + 2 + 2);
  CHECK(counts.structured.answers == 4);
  CHECK(counts.structured.cut == 1);
  // Of an answer without a form neither.
  FinishedLine free = finished_chat(tool_chat("\"n\":1"), {"a"});
  free.outputs[0].completions[0].finish = engine::FinishReason::length;
  counts.add(free, false);
  CHECK(counts.completion_tokens == 7);
  CHECK(counts.structured.answers == 4);
  CHECK(counts.structured.cut == 1);
  CHECK(counts.ok + counts.failed + counts.lines == 0);  // the runner's to count
}

TEST_CASE("the largest resident size grows by the bytes that a process takes") {
  constexpr size_t kMore = size_t{256} << 20;
  const auto take = [](size_t bytes, int more) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | more, -1, 0);
    REQUIRE(at != MAP_FAILED);
    return at;
  };
  auto* const grown = static_cast<uint64_t*>(take(sizeof(uint64_t), MAP_SHARED));
  // A process of its own, whose peak is no more than what it has.
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t before = peak_rss_bytes();
    take(kMore, MAP_PRIVATE | MAP_POPULATE);
    *grown = peak_rss_bytes() - before;
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  // The kernel counts pages of each thread together now and then.
  CHECK(static_cast<double>(*grown) == Approx(kMore).epsilon(0.01));
}
