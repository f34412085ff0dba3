// `plan --check`: was the plan of a run exceeded?
#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "plan/report.h"
#include "plan_parts.h"

namespace plimsoll::cli {
namespace {

int64_t integer(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
}

}  // namespace

int check_report(const std::string& file) {
  const Json report = read_json_file(file);
  const auto plan = report.is_object() ? report.find("plan") : report.end();
  if (!report.is_object() || plan == report.end() || !plan->is_object()) {
    fail(ExitCode::usage, "--check {}: not a report of run (run --report FILE writes one)", file);
  }
  const auto regions = plan->find("regions");
  if (regions != plan->end() && regions->is_array()) {
    for (const Json& region : *regions) {
      fmt::print("{:<28}{:>14}\n", region.value("name", std::string()),
                 plan::readable_bytes(integer(region, "bytes")));
    }
  }
  const int64_t planned = integer(*plan, "total_bytes");
  int64_t measured = integer(report, "measured_peak_bytes");
  if (measured == 0) measured = integer(report, "arena_peak_bytes");
  fmt::print("{:<28}{:>14}\n", "planned", plan::readable_bytes(planned));
  if (measured == 0) {
    fmt::print("{:<28}{:>14}\n", "process peak",
               plan::readable_bytes(integer(report, "peak_rss_bytes")));
    fmt::print("the report states no measured peak of the planned memory: nothing to compare\n");
    return static_cast<int>(ExitCode::done);
  }
  fmt::print("{:<28}{:>14}\n", "measured", plan::readable_bytes(measured));
  const bool exceeded = measured > planned;
  fmt::print("{}\n", exceeded ? "the plan was exceeded" : "within the plan");
  return static_cast<int>(exceeded ? ExitCode::does_not_fit : ExitCode::done);
}

}  // namespace plimsoll::cli
