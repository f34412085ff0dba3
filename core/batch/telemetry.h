// A run as other programs see it while it works: JSON lines, and Prometheus' text form.
#pragma once

#include <cstdint>
#include <string>

#include "batch/progress.h"

namespace plimsoll::batch {

/// Status of a run as one JSON line: {"event":...,"phase":...,"done":...,...}. `event`: "status" or
/// "end"; `exit_status` stands in the latter alone.
std::string status_json(const ProgressSample& sample, uint64_t peak_rss);
std::string end_json(int exit_status);

/// Metrics for the textfile collector of Prometheus' node_exporter, which drops figures of one name
/// that come from several files: the label `output` makes figures of several runs differ.
std::string metrics_text(const ProgressSample& sample, uint64_t peak_rss,
                         const std::string& output);

}  // namespace plimsoll::batch
