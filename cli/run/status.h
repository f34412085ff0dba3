// A run as other programs see it: JSON lines on a descriptor, a metrics file.
#pragma once

#include <mutex>
#include <string>

#include "batch/progress.h"
#include "cli/run/options.h"

namespace plimsoll::cli {

class StatusSink {
 public:
  /// Throws Error(usage) for a descriptor that is not open.
  explicit StatusSink(const RunOptions& options);

  /// Writes the first metrics, of a run that writes to `output`. Throws Error(output_unwritable).
  void begin(const std::string& output);
  /// From any thread. A reader that is slow misses lines; a file that cannot be written
  /// is left as it was.
  void publish(const batch::ProgressSample& sample) noexcept;
  /// The last line, however the command ends: what comes after it is left out.
  void end(int exit_status) noexcept;

 private:
  void tell(const batch::ProgressSample& sample) const noexcept;
  void write(const std::string& line) const;

  std::mutex mutex_;
  bool ended_ = false;
  int descriptor_;       // -1: none
  std::string metrics_;  // empty: none
  std::string output_;   // what the metrics are of
};

}  // namespace plimsoll::cli
