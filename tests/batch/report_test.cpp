// The report at a run's end: lines, and the table of plan and measured.
#include "batch/memory_report.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "batch/report.h"

using namespace plimsoll::batch;

TEST_CASE("the table has no blanks at its ends, and small regions in one line") {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  MemoryReport report;
  report.lines = {{"weights", 8 * kMiB, 8 * kMiB, {}},
                  {"table", 1000, 1000, {}},
                  {"ids", 500, 400, {}},
                  {"scratch", 4 * kMiB, 4 * kMiB, 3 * kMiB},
                  {"process", {}, 20 * kMiB, {}}};
  report.planned = 12 * kMiB + 1500;
  report.measured_peak = 11 * kMiB;
  const std::vector<std::string> table = memory_table(report);
  for (const std::string& line : table) {
    INFO(line);
    CHECK(line.size() <= 80);
    CHECK(line.back() != ' ');
  }
  const auto has = [&](const std::string& text) {
    return std::ranges::any_of(
        table, [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  CHECK(has("weights                        8.00 MiB      8.00 MiB"));
  CHECK(has("scratch                        4.00 MiB      4.00 MiB      3.00 MiB"));
  CHECK(has("2 regions below 1 MiB"));
  CHECK(!has("ids"));
  CHECK(!exceeds_plan(report));
}

TEST_CASE("a run that ended within its first step tells its lines alone") {
  RunReport report;
  report.counts.lines = 5;
  report.counts.ok = 3;
  report.counts.failed = 1;
  report.counts.failed_by_code = {{"bad_field", 1}};
  const std::string lines = "3 of 5 lines answered, 1 failed (1 bad_field), 1 left";
  CHECK(summary_lines(report) == std::vector{lines});
  RunReport empty;
  CHECK(summary_lines(empty) ==
        std::vector<std::string>{"the input has no lines: nothing was answered"});
  empty.counts.ending = Ending::stopped;  // before a line was read
  CHECK(summary_lines(empty).front() == "0 of 0 lines answered");
  report.memory.lines = {{"weights", 1, 1, {}}};
  const std::vector<std::string> all = summary_lines(report);
  CHECK(all.front() == lines);
  CHECK(all.size() > 4);
}
