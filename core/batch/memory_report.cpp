#include "batch/memory_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::batch {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string mebibytes(std::optional<uint64_t> bytes) {
  return bytes ? fmt::format("{:.2f} MiB", static_cast<double>(*bytes) / kMiB) : "";
}

std::string row(const std::string& part, const std::string& planned, const std::string& measured,
                const std::string& used) {
  std::string line = fmt::format("  {:<25.25}{:>14}{:>14}{:>14}", part, planned, measured, used);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string row(const MemoryLine& line) {
  return row(line.part, mebibytes(line.planned), mebibytes(line.measured), mebibytes(line.used));
}

bool is_small(const MemoryLine& line) {
  return line.planned && line.measured && !line.used &&
         std::max(*line.planned, *line.measured) < kMiB && *line.measured <= *line.planned;
}

void write_line(JsonText& out, const MemoryLine& line) {
  out.begin_object().key("part").string(line.part);
  const auto put = [&out](const char* key, std::optional<uint64_t> bytes) {
    if (bytes) out.key(key).unsigned_integer(*bytes);
  };
  put("planned_bytes", line.planned);
  put("measured_bytes", line.measured);
  put("used_bytes", line.used);
  out.end_object();
}

}  // namespace

RankReport add_rank(MemoryReport& report, const std::vector<engine::MeasuredRegion>& regions,
                    const std::string& prefix) {
  RankReport rank;
  for (const engine::MeasuredRegion& region : regions) {
    report.lines.push_back({.part = prefix + region.name,
                            .planned = region.planned_bytes,
                            .measured = region.placed_bytes,
                            .used = region.used_bytes});
    rank.planned += region.planned_bytes;
    rank.placed += region.placed_bytes;
    // KV blocks are the engine's from the launch on, whether a sequence holds them or not.
    const bool scratch = region.used_bytes && region.name != "kv blocks";
    rank.arena_peak += scratch ? *region.used_bytes : region.placed_bytes;
  }
  report.planned += rank.planned;
  report.arena_peak += rank.arena_peak;
  report.measured_peak = report.arena_peak;
  return rank;
}

MemoryReport host_memory_report(const std::vector<engine::MeasuredRegion>& regions,
                                uint64_t peak_rss) {
  MemoryReport report;
  report.peak_rss = peak_rss;
  add_rank(report, regions, "");
  return report;
}

bool exceeds_plan(const MemoryReport& report) {
  return report.measured_peak > report.planned ||
         (report.device && report.device->peak > report.device->budget) ||
         std::ranges::any_of(report.lines, [](const MemoryLine& line) {
           return line.planned &&
                  std::max(line.measured.value_or(0), line.used.value_or(0)) > *line.planned;
         });
}

void write_memory(JsonText& out, const MemoryReport& report) {
  out.key("memory").begin_object();
  out.key("planned_bytes").unsigned_integer(report.planned);
  out.key("within_plan").boolean(!exceeds_plan(report));
  out.key("parts").begin_array();
  for (const MemoryLine& line : report.lines) write_line(out, line);
  out.end_array();
  if (report.device) {
    out.key("device").begin_object().key("name").string(report.device->name);
    out.key("total_bytes").unsigned_integer(report.device->total);
    out.key("budget_bytes").unsigned_integer(report.device->budget);
    out.key("free_at_start_bytes").unsigned_integer(report.device->free_at_start);
    out.key("peak_bytes").unsigned_integer(report.device->peak).end_object();
  }
  out.end_object();
  out.key("measured_peak_bytes").unsigned_integer(report.measured_peak);
  out.key("arena_peak_bytes").unsigned_integer(report.arena_peak);
  out.key("peak_rss_bytes").unsigned_integer(report.peak_rss);
}

std::vector<std::string> memory_table(const MemoryReport& report) {
  std::vector<std::string> table{row("memory:", "planned", "reserved", "in use")};
  table.front().erase(0, 2);
  MemoryLine rest{.part = "", .planned = 0, .measured = 0, .used = {}};
  size_t small = 0;
  for (const MemoryLine& line : report.lines) {
    if (is_small(line)) {
      *rest.planned += *line.planned;
      *rest.measured += *line.measured;
      ++small;
    } else {
      table.push_back(row(line));
    }
  }
  if (small > 0) {
    rest.part = fmt::format("{} regions below 1 MiB", small);
    table.push_back(row(rest));
  }
  table.push_back(row("peak of what is planned", mebibytes(report.planned),
                      mebibytes(report.measured_peak), ""));
  if (report.device) {
    table.push_back(row("the card's budget", mebibytes(report.device->budget),
                        mebibytes(report.device->peak), ""));
  }
  table.push_back(row("process on the host", "", mebibytes(report.peak_rss), ""));
  if (exceeds_plan(report)) table.emplace_back("  the plan was exceeded");
  return table;
}

}  // namespace plimsoll::batch
