// Planned and measured memory of a launch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "batch/json_text.h"
#include "engine/engine.h"

namespace plimsoll::batch {

/// One line of the comparison; bytes. A side that does not exist is absent.
struct MemoryLine {
  std::string part;
  std::optional<uint64_t> planned;
  std::optional<uint64_t> measured;
  std::optional<uint64_t> used;  // of `measured`, at one time at most; absent: all of it
};

/// The card, for runs that had one; bytes by its driver.
struct DeviceMemoryReport {
  std::string name;
  uint64_t total = 0;
  uint64_t budget = 0;         // what the process was allowed
  uint64_t free_at_start = 0;  // before the process took anything
  uint64_t peak = 0;           // of the process, the arena included
};

struct MemoryReport {
  std::vector<MemoryLine> lines;  // the arena's regions, then what lies outside the arena
  uint64_t planned = 0;           // sum of what was planned
  uint64_t measured_peak = 0;     // what `planned` is held against
  uint64_t arena_peak = 0;        // peak of the arena, scratch counted as far as it was in use
  uint64_t peak_rss = 0;          // of the process on the host
  std::optional<DeviceMemoryReport> device;
};

/// Memory of one rank of several, and the bytes that it has read; its regions are lines that begin
/// with "rank N: ".
struct RankReport {
  int64_t copy = 0;
  int64_t tensor_rank = 0;   // among the ranks that have the same layers
  int64_t tensor_ranks = 1;  // number of ranks that have the same layers
  int64_t first_layer = 0;
  int64_t layers = 0;
  uint64_t planned = 0;          // bytes of its arena
  uint64_t placed = 0;           // bytes that the launch took
  uint64_t arena_peak = 0;       // bytes, as in MemoryReport
  std::optional<uint64_t> read;  // bytes of the checkpoint's files; absent: none were there
};

/// Report of an arena in host memory, whose regions are both the plan and the measurement.
MemoryReport host_memory_report(const std::vector<engine::MeasuredRegion>& regions,
                                uint64_t peak_rss);
/// Adds the arena of one rank of several, its lines prefixed with `prefix`; returns that rank's
/// share of the report.
RankReport add_rank(MemoryReport& report, const std::vector<engine::MeasuredRegion>& regions,
                    const std::string& prefix);

/// Whether the measured peak, any one line's, or the card's is over what was planned.
bool exceeds_plan(const MemoryReport& report);

/// The keys "memory", "measured_peak_bytes", "arena_peak_bytes" and "peak_rss_bytes".
void write_memory(JsonText& out, const MemoryReport& report);

/// A table of at most 80 columns; regions of less than 1 MiB are one line.
std::vector<std::string> memory_table(const MemoryReport& report);

}  // namespace plimsoll::batch
