// The end of a run: the summary for people and the report for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "batch/memory_report.h"
#include "batch/order/order_choice.h"
#include "batch/runner.h"

namespace plimsoll::batch {

/// Version of the report's layout; a key may be added under the same version, none is removed.
inline constexpr int kReportSchemaVersion = 1;

/// Schemas, expressions and grammars of a run's lines: those compiled and those refused
/// (grammar::Compiler::compiled).
struct CompiledGrammars {
  int64_t count = 0;
  double seconds = 0;  // wall-clock
};

struct RunReport {
  std::string version;
  std::string model;
  std::string device;
  std::string isa;
  int threads = 0;
  std::string dtype;
  uint64_t seed = 0;
  RunCounts counts;
  OrderChoice order;
  engine::EngineStats stats;
  engine::EnginePlan plan;
  std::string limits;  // why limits that flags leave open are what they are; empty: none are open
  PreparedImages prepared;
  CompiledGrammars grammars;
  double load_seconds = 0;
  double run_seconds = 0;
  double publish_seconds = 0;
  MemoryReport memory;
  std::vector<RankReport> ranks;   // of several, by number
  std::vector<std::string> notes;  // of the launch
  int exit_status = 0;
};

/// One JSON object, its keys as the manual lists them, with a line end.
std::string report_json(const RunReport& report);
/// A few lines for stderr.
std::vector<std::string> summary_lines(const RunReport& report);

/// Largest resident size of this process so far.
uint64_t peak_rss_bytes();
/// "complete", "stopped", "time_limit", "stalled".
std::string_view ending_name(Ending ending);
/// The reason for an ending in words for people: "signal", "--time-limit", "--stall-limit"; empty
/// for complete.
std::string_view ending_reason(Ending ending);

}  // namespace plimsoll::batch
